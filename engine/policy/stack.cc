#include "policy/stack.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/invariant.h"
#include "base/planted_bug.h"
#include "policy/stack_schedule.h"

namespace ebbtide {
namespace {

using Sizes = std::span<const std::uint64_t>;
using Range = std::pair<std::size_t, std::size_t>;
using Choice = std::optional<Range>;

double sum_of(Sizes sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 0.0, [](double a, auto b) { return a + static_cast<double>(b); });
}

/// Returns true if, once the newest `merged` runs are one run, every older run is larger than all newer runs together.
bool dominates(Sizes sizes, std::size_t merged) {
  double newer = sum_of(sizes.first(merged));
  for (std::size_t i = merged; i < sizes.size(); ++i) {
    if (static_cast<double>(sizes[i]) <= newer) return false;
    newer += static_cast<double>(sizes[i]);
  }
  return true;
}

Choice choose_bigtable(Sizes sizes, std::size_t k) {
  if (sizes.size() <= k) return std::nullopt;
  std::size_t merged = 2;
  while (merged < sizes.size() && !dominates(sizes, merged)) ++merged;
  return Range{0, merged - 1};
}

/// A group of neighbours that may be merged.
struct Group {
  std::size_t first = 0, length = 0;
  double total = 0;
  [[nodiscard]] Range range() const { return {first, first + length - 1}; }
};

/// Returns the best group of `shortest` to `longest` neighbours for which `fits` returns true; no value if there is none.
/// `better` compares two groups; of equal groups the oldest is returned, as in HBase.
template <typename Fits, typename Better>
Choice best_group(Sizes sizes, std::size_t shortest, std::size_t longest, Fits fits, Better better) {
  std::optional<Group> best;
  for (std::size_t end = sizes.size(); end > 0; --end) {  // `end`: exclusive end of the group; the group's oldest run is end - 1
    Group group{end, 0, 0};
    double largest = 0;
    while (group.first > 0 && group.length < longest) {
      const auto size = static_cast<double>(sizes[--group.first]);
      ++group.length;
      group.total += size;
      largest = std::max(largest, size);
      if (group.length >= shortest && fits(group, largest) && (!best || better(group, *best))) best = group;
    }
  }
  return best ? Choice(best->range()) : std::nullopt;
}

Choice choose_exploring(Sizes sizes, const StackParameters& p) {
  const auto shortest = static_cast<std::size_t>(p.min_merge), longest = static_cast<std::size_t>(p.max_merge);
  const bool deep = sizes.size() > static_cast<std::size_t>(p.k);
  const auto even = [&](const Group& g, double largest) { return largest <= p.lambda * (g.total - largest); };
  const auto longer = [](const Group& a, const Group& b) {
    return a.length != b.length ? a.length > b.length : a.total < b.total;
  };
  const auto cheaper = [](const Group& a, const Group& b) {
    const double left = a.total * static_cast<double>(b.length), right = b.total * static_cast<double>(a.length);
    return left != right ? left < right : a.length > b.length;
  };
  if (!deep) return best_group(sizes, shortest, longest, even, longer);
  if (Choice found = best_group(sizes, shortest, longest, even, cheaper)) return found;
  const std::size_t forced = std::min(shortest, sizes.size());
  return best_group(
      sizes, forced, forced, [](const Group&, double) { return true; },
      [](const Group& a, const Group& b) { return a.total < b.total; });
}

Choice choose_concurrent(Sizes sizes, const StackParameters& p) {
  const std::size_t longest = std::min(static_cast<std::size_t>(p.max_merge), sizes.size());
  if (sizes.size() > static_cast<std::size_t>(p.k)) return Range{0, longest - 1};
  for (std::size_t length = longest; length >= static_cast<std::size_t>(p.min_merge); --length) {
    if (static_cast<double>(sizes[length - 1]) <= p.lambda * sum_of(sizes.first(length - 1))) return Range{0, length - 1};
  }
  return std::nullopt;
}

Choice leave(Sizes sizes, std::uint64_t runs) {
  if (sizes.size() <= runs) return std::nullopt;
  return Range{0, sizes.size() - runs};
}

/// Returns the runs that have files, newest first.
std::vector<const RunShape*> stack_of(const TreeShape& shape) {
  std::vector<const RunShape*> stack;
  for (const RunShape& run : shape.runs) {
    if (!run.files.empty()) stack.push_back(&run);
  }
  return stack;
}
std::vector<std::uint64_t> sizes_of(const std::vector<const RunShape*>& stack) {
  std::vector<std::uint64_t> sizes;
  for (const RunShape* run : stack) sizes.push_back(run->bytes());
  return sizes;
}

}  // namespace

Choice choose_merge(StackRule rule, const StackParameters& parameters, Sizes sizes, std::uint64_t flushes) {
  const auto k = static_cast<std::size_t>(parameters.k);
  if (sizes.size() < 2) return std::nullopt;
  switch (rule) {
    case StackRule::kBigtable:
      return choose_bigtable(sizes, k);
    case StackRule::kConstant:
      return sizes.size() > k ? Choice(Range{0, sizes.size() - 1}) : std::nullopt;
    case StackRule::kExploring:
      return choose_exploring(sizes, parameters);
    case StackRule::kConcurrent:
      return choose_concurrent(sizes, parameters);
    case StackRule::kMinLatency:
      return leave(sizes, min_latency_runs(k, std::max<std::uint64_t>(flushes, 1)));
    case StackRule::kBinomial:
      return leave(sizes, binomial_runs(k, std::max<std::uint64_t>(flushes, 1)));
  }
  return std::nullopt;
}

StackPolicy::StackPolicy(std::string name, StackRule rule, const StackParameters& parameters)
    : name_(std::move(name)), rule_(rule), parameters_(parameters) {
  ASSERT(parameters.k >= 1 && parameters.lambda > 0 && parameters.min_merge >= 2 && parameters.max_merge >= parameters.min_merge);
}

Plan StackPolicy::next(const TreeShape& shape, const PolicyContext&) const {
  std::vector<const RunShape*> stack = stack_of(shape);
  const auto busy = std::find_if(stack.begin(), stack.end(), [](const RunShape* run) { return run->is_busy(); });
  if (busy != stack.end()) {
    if (rule_ != StackRule::kConcurrent) return {};
    stack.erase(busy, stack.end());
  }
  const Choice choice = choose_merge(rule_, parameters_, sizes_of(stack), shape.flushes);
  if (!choice || planted(PlantedBug::kStackTooDeep)) return {};
  Merge merge;
  for (std::size_t i = choice->first; i <= choice->second; ++i) merge.inputs.push_back(whole_run(*stack[i]));
  merge.target = {stack[choice->second]->id, stack[choice->second]->level};
  Plan plan;
  plan.reason = Reason::kRunCount;
  plan.action = std::move(merge);
  return plan;
}

std::uint64_t StackPolicy::debt_bytes(const TreeShape& shape) const {
  const std::vector<std::uint64_t> sizes = sizes_of(stack_of(shape));
  const Choice choice = choose_merge(rule_, parameters_, sizes, shape.flushes);
  if (!choice) return 0;
  return static_cast<std::uint64_t>(sum_of(Sizes(sizes).subspan(choice->first, choice->second - choice->first + 1)));
}

double StackPolicy::capacity_bytes(const TreeShape& shape, int) const {
  return parameters_.k * static_cast<double>(std::max<std::uint64_t>(shape.memtable_bytes, 1));
}

// While all runs merge, flushes go on. Writes slow down when about k runs wait for the merge, and stop when about 5 k runs wait.
int StackPolicy::slowdown_runs() const { return 2 * parameters_.k + 4; }
int StackPolicy::stop_runs() const { return 6 * parameters_.k + 8; }

std::string StackPolicy::check(const TreeShape& shape) const {
  const auto runs = stack_of(shape).size();
  if (runs <= static_cast<std::size_t>(parameters_.k)) return "";
  return "the stack has " + std::to_string(runs) + " runs; at most " + std::to_string(parameters_.k);
}

Cadence StackPolicy::cadence() const {
  return rule_ == StackRule::kExploring || rule_ == StackRule::kConcurrent ? Cadence::kOncePerFlush : Cadence::kWithFlush;
}

std::uint64_t StackPolicy::flushes(const TreeShape& shape) const {
  const std::vector<const RunShape*> stack = stack_of(shape);
  if (!by_schedule() || stack.size() != 1) return shape.flushes;
  const std::uint64_t memtable = std::max<std::uint64_t>(shape.memtable_bytes, 1);
  const std::uint64_t worth = std::max<std::uint64_t>(1, (stack.front()->bytes() + memtable - 1) / memtable);
  return worth <= shape.flushes / 2 ? worth : shape.flushes;
}

}  // namespace ebbtide
