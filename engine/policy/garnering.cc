#include "policy/garnering.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/invariant.h"

namespace ebbtide {
namespace {

/// Limits the work on a damaged shape. No real tree has more levels: with T = 2 and c = 1, 60 levels hold 2^60 memtables.
constexpr int kMostLevels = 60;

std::uint64_t bytes_at(const TreeShape& shape, int level) {
  std::uint64_t sum = 0;
  for (const RunShape& run : shape.runs) sum += run.level == level ? run.bytes() : 0;
  return sum;
}
std::uint64_t bytes_from(const TreeShape& shape, int level) {
  std::uint64_t sum = 0;
  for (const RunShape& run : shape.runs) sum += run.level >= level ? run.bytes() : 0;
  return sum;
}
double memtable(const TreeShape& shape) { return static_cast<double>(std::max<std::uint64_t>(shape.memtable_bytes, 1)); }
/// Returns the persisted number of levels. If there is none, for example after another policy, returns the number of levels in
/// use.
int level_count(const TreeShape& shape) {
  return std::clamp(shape.levels == 0 ? shape.last_level() : shape.levels, 1, kMostLevels);
}

/// Returns a plan that makes one run of level `last` from all runs at or below that level; returns an empty plan while any run is
/// busy.
Plan lift(const TreeShape& shape, int last) {
  Merge merge;
  for (const RunShape& run : shape.runs) {
    if (run.is_busy()) return {};
    if (run.level < last || run.files.empty()) continue;
    merge.inputs.push_back(whole_run(run));
  }
  merge.target = {0, last};
  Plan plan;
  plan.reason = Reason::kSpace;
  if (merge.inputs.size() == 1) {
    plan.action = Move{merge.inputs.front().run, std::move(merge.inputs.front().files), merge.target};
  } else {
    plan.action = std::move(merge);
  }
  return plan;
}

}  // namespace

double garnering_capacity(const GarneringParameters& parameters, int levels, int level) {
  const double t = parameters.size_ratio;
  const double i = std::min(level, levels), l = levels;
  const double buffers = std::max(1.0, parameters.level0_runs / t);
  return buffers * std::pow(t, i) / std::pow(parameters.scaling_ratio, (2 * l - 1 - i) * i / 2);
}

GarneringPolicy::GarneringPolicy(std::string name, const GarneringParameters& parameters)
    : name_(std::move(name)), parameters_(parameters) {
  ASSERT(parameters.size_ratio > 1 && parameters.scaling_ratio > 0 && parameters.scaling_ratio <= 1 &&
         parameters.level0_runs >= 1);
}

// When the last level is full, L grows, so the last level never exceeds its capacity. So it has no limit in these vectors, and
// no file goes below it.
LeveledPolicy GarneringPolicy::leveling_for(const TreeShape& shape) const {
  const int last = level_count(shape);
  LevelVectors vectors;
  vectors.run_limits = {parameters_.level0_runs, 1};
  vectors.capacities = {static_cast<double>(parameters_.level0_runs)};
  for (int level = 1; level < last; ++level) vectors.capacities.push_back(garnering_capacity(parameters_, last, level));
  vectors.capacities.push_back(0x1p200);
  vectors.size_ratio = 1;
  return LeveledPolicy(name_, std::move(vectors));
}

bool GarneringPolicy::last_is_full(const TreeShape& shape) const {
  const int last = level_count(shape);
  return static_cast<double>(bytes_at(shape, last)) > garnering_capacity(parameters_, last, last) * memtable(shape);
}

Plan GarneringPolicy::next(const TreeShape& shape, const PolicyContext& context) const {
  const int last = level_count(shape);
  if (Plan plan = leveling_for(shape).next(shape, context); !plan.empty()) return plan;
  if (shape.last_level() > last) return lift(shape, last);
  return {};
}

int GarneringPolicy::levels(const TreeShape& shape) const {
  int last = level_count(shape);
  if (last_is_full(shape)) return std::min(last + 1, kMostLevels);
  const double data = static_cast<double>(bytes_from(shape, 1));
  while (last > 1 && data <= garnering_capacity(parameters_, last - 1, last - 1) * memtable(shape) / 2) --last;
  return last;
}

std::uint64_t GarneringPolicy::debt_bytes(const TreeShape& shape) const { return leveling_for(shape).debt_bytes(shape); }

double GarneringPolicy::capacity_bytes(const TreeShape& shape, int level) const {
  if (level <= 0) return parameters_.level0_runs * memtable(shape);
  return garnering_capacity(parameters_, level_count(shape), level) * memtable(shape);
}

int GarneringPolicy::slowdown_runs() const { return leveling_for({}).slowdown_runs(); }
int GarneringPolicy::stop_runs() const { return leveling_for({}).stop_runs(); }

std::string GarneringPolicy::check(const TreeShape& shape) const {
  if (std::string wrong = leveling_for(shape).check(shape); !wrong.empty()) return wrong;
  const int last = level_count(shape);
  if (last_is_full(shape)) {
    return "level " + std::to_string(last) + ", the last, has " + std::to_string(bytes_at(shape, last)) + " bytes; at most " +
           std::to_string(static_cast<std::uint64_t>(garnering_capacity(parameters_, last, last) * memtable(shape)));
  }
  if (shape.last_level() > last) return "there are files below level " + std::to_string(last) + ", the last";
  return "";
}

}  // namespace ebbtide
