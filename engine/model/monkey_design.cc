#include "model/monkey_design.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/invariant.h"
#include "filter/monkey.h"
#include "model/number_text.h"

namespace ebbtide {
namespace {

constexpr double kFilterBase = 0.480453013918201424667;  // ln(2)^2

/// Returns v, found keys per absent key (Eq. 12); a large number if all keys are found.
double found_per_absent(const PerOperation& mix) { return mix[kRead] / std::max(mix[kEmptyRead], 1e-12); }

double levels_of(const System& s, double size_ratio, double buffer_bits) {
  return std::max(1.0, std::log(s.data_bits() / buffer_bits * (size_ratio - 1) / size_ratio) / std::log(size_ratio));
}

/// Returns the page reads of a write at each level (Eq. 10).
double write_per_level(const System& s, bool tiering, double t) {
  return (t - 1) / (tiering ? t : 2) * (1 + s.write_asymmetry) / s.entries_per_page();
}

/// Returns the T >= 2 with T^(L+1) / (T - 1) = ratio; no value if `ratio` is too small for `levels` levels even with T = 2.
std::optional<double> ratio_for_levels(double ratio, int levels) {
  const auto log_size = [&](double t) { return (levels + 1) * std::log(t) - std::log(t - 1); };
  if (log_size(2) > std::log(ratio)) return std::nullopt;
  double low = 2, high = std::max(4.0, ratio * 2);
  for (int i = 0; i < 80; ++i) {
    const double middle = std::sqrt(low * high);
    (log_size(middle) < std::log(ratio) ? low : high) = middle;
  }
  return low;
}

bool keeps(const MonkeyDesign& design, const MonkeyBounds& bounds) {
  return design.point_read <= bounds.point_read && design.write <= bounds.write;
}

/// Checks the inputs, and returns the memory without the buffer's page.
Result<double> most_filter_bits(const System& system, const PerOperation& mix) {
  TRY(check_system(system));
  TRY(check_mix(mix));
  const double page = std::max(system.page_bytes * 8, system.memory_bits * 1e-9);  // rounding must leave a buffer
  const double most = system.memory_bits - page;
  if (!(most > 0))
    return Status::invalid_argument("memory is " + number_text(system.memory_bits / 8) + " bytes; allowed: more than a page");
  return most;
}

/// Returns `best`, or the error that says why there is none. `any`: true if designs existed, within the bounds or not.
Result<MonkeyDesign> found(const std::optional<MonkeyDesign>& best, bool any) {
  if (!any) return Status::invalid_argument("the data fits into the memory, so there is nothing to design");
  if (!best) return Status::invalid_argument("no design keeps the bounds");
  return *best;
}

}  // namespace

MonkeyDesign monkey_costs(const System& system, const PerOperation& mix, bool tiering, double size_ratio, double filter_bits) {
  ASSERT(size_ratio >= 2 && filter_bits >= 0 && filter_bits < system.memory_bits);
  MonkeyDesign d;
  d.tiering = tiering;
  d.size_ratio = size_ratio;
  d.filter_bits = filter_bits;
  d.buffer_bits = system.memory_bits - filter_bits;
  d.levels = levels_of(system, size_ratio, d.buffer_bits);
  const FullTree tree{size_ratio, static_cast<int>(std::ceil(d.levels - 1e-9)), system.entries, tiering, found_per_absent(mix)};
  d.point_read = lookup_cost(tree, filter_bits);
  d.range = system.range_selectivity * system.entries / system.entries_per_page() + d.levels * (tiering ? size_ratio - 1 : 1);
  d.write = d.levels * write_per_level(system, tiering, size_ratio);
  d.cost = (mix[kEmptyRead] + mix[kRead]) * d.point_read + mix[kRange] * d.range + mix[kWrite] * d.write;
  return d;
}

double monkey_filter_memory(const System& system, const PerOperation& mix, bool tiering, double size_ratio) {
  const double t = size_ratio, memory = system.memory_bits;
  const double page = std::max(system.page_bytes * 8, memory * 1e-9);  // rounding must leave a buffer
  const double points = mix[kEmptyRead] + mix[kRead], found = points > 0 ? mix[kRead] / points : 0;
  const double last = tiering ? 1 - found * t / (t - 1) / 2 : 1 - found;
  const double alpha = points * std::pow(t, t / (t - 1)) / (tiering ? 1 : t - 1) * std::pow(last, (t - 1) / t);
  const double gamma = (mix[kRange] * (tiering ? t - 1 : 1) + mix[kWrite] * write_per_level(system, tiering, t)) / std::log(t);
  const double beta = kFilterBase / system.entries;
  if (memory <= page || !(memory * alpha * beta > gamma)) return 0;
  const auto h = [&](double x) { return x - std::log(alpha * beta / gamma * (memory - x)) / beta; };
  double x = memory - page;
  if (gamma == 0 || h(x) <= 0) return x;
  for (double step = memory; step > page / 16;) {  // h is convex and rises, so Newton steps from the right never pass the root
    const double next = std::max(0.0, x - h(x) / (1 + 1 / (beta * (memory - x))));
    step = std::abs(next - x);
    x = next;
  }
  return x;
}

Result<MonkeyDesign> monkey_navigation(const System& system, const PerOperation& mix, const MonkeyRange& range,
                                       const MonkeyBounds& bounds) {
  TRY_ASSIGN(most, most_filter_bits(system, mix));
  std::optional<MonkeyDesign> best;
  bool any = false;
  for (const bool tiering : {false, true}) {
    if (!(tiering ? range.tiering : range.leveling)) continue;
    for (int t = range.size_ratio_min; t <= range.size_ratio_max; ++t) {
      const double filters = std::min(most, monkey_filter_memory(system, mix, tiering, t));
      if (!ratio_for_levels(system.data_bits() / (system.memory_bits - filters), 1)) continue;
      any = true;
      const MonkeyDesign design = monkey_costs(system, mix, tiering, t, filters);
      if (keeps(design, bounds) && (!best || design.cost < best->cost)) best = design;
    }
  }
  return found(best, any);
}

Result<MonkeyDesign> monkey_design(const System& system, const PerOperation& mix, const MonkeyBounds& bounds) {
  TRY_ASSIGN(most, most_filter_bits(system, mix));
  std::optional<MonkeyDesign> best;
  bool any = false;
  // Each round searches filter memory in smaller steps around the best point of the round before.
  constexpr int kPoints = 32, kRounds = 6;
  for (int levels = 1; levels <= 60; ++levels) {
    for (const bool tiering : {false, true}) {
      std::optional<MonkeyDesign> here;
      double low = 0, high = most;
      for (int round = 0; round < kRounds; ++round) {
        const double step = (high - low) / kPoints;
        for (int i = 0; i <= kPoints; ++i) {
          const double filters = low + step * i;
          const auto t = ratio_for_levels(system.data_bits() / (system.memory_bits - filters), levels);
          if (!t) continue;
          any = true;
          const MonkeyDesign design = monkey_costs(system, mix, tiering, *t, filters);
          if (keeps(design, bounds) && (!here || design.cost < here->cost)) here = design;
        }
        if (!here) break;
        low = std::max(0.0, here->filter_bits - step);
        high = std::min(most, here->filter_bits + step);
      }
      if (here && (!best || here->cost < best->cost)) best = here;
    }
  }
  return found(best, any);
}

}  // namespace ebbtide
