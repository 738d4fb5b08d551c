#include "model/transition.h"

#include <algorithm>
#include <limits>

namespace ebbtide {
namespace {

/// The entries and runs of a level of a full tree; both are 0 for an empty level.
struct Held {
  double entries = 0, runs = 0;
};

Held held_at(const CostReport& report, int level) {
  const int at = level - report.first_level;
  if (at < 0 || at >= report.levels) return {};
  const LevelCost& here = report.level[static_cast<std::size_t>(at)];
  return {here.entries, here.runs};
}

}  // namespace

double entries_moved(const System& system, const Tuning& from, const Tuning& to) {
  System ideal = system;  // filters have no influence on the shape
  ideal.filter_curve = FilterCurve::kIdeal;
  constexpr PerOperation kAnyMix = {0.25, 0.25, 0.25, 0.25};
  const CostReport before = costs_of(ideal, from, kAnyMix), after = costs_of(ideal, to, kAnyMix);
  const int last_before = before.first_level + before.levels - 1, last_after = after.first_level + after.levels - 1;
  double moved = 0, arriving = 0;
  for (int level = std::min(before.first_level, after.first_level); level <= std::max(last_before, last_after); ++level) {
    const Held has = held_at(before, level), may = held_at(after, std::min(level, last_after));
    const bool exists = level >= after.first_level;
    const double holds = !exists ? 0 : level < last_after ? may.entries : std::numeric_limits<double>::infinity();
    const double runs = exists ? std::max(1.0, may.runs) : std::numeric_limits<double>::infinity();
    const bool too_many = has.entries > 0 && has.runs > runs + 1e-9;
    const bool joined = arriving > 0 && runs < 1.5;  // arriving entries are merged with the level's only run
    moved += arriving + (too_many || joined ? has.entries : 0);
    const double here = has.entries + arriving;
    arriving = std::max(0.0, here - holds);
    if (arriving < here * 1e-9) arriving = 0;
  }
  return moved;
}

double merge_cost(const System& system, double entries) {
  return system.sequential_cost * (1 + system.write_asymmetry) * entries / system.entries_per_page();
}

}  // namespace ebbtide
