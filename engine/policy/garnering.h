// Garnering (Zhao et al., Autumn, section 3): leveling in which the capacities of levels depend on the number L of levels. The
// last level is T times as large as the level before it, and this ratio grows by the factor 1/c per level upwards (Eq. 4). So
// level i has the capacity
//
//   C_i = T^i / c^((2L - 1 - i) i / 2) B,  i = 1 .. L                                                      (Eq. 5)
//
// The tree has fewer levels than with leveling: O(sqrt(log n)). The small levels become larger when L grows. B is the size of
// the memtable times max(1, level0_runs / T), so that level 1 is not smaller than level 0. L is persisted (TreeShape::levels):
//   * delayed last-level compaction: a full last level increases L by one, which makes every level larger, and starts no
//     compaction. So no file ever goes below level L;
//   * L shrinks by one when all data would fill at most half of the last level of a tree with L - 1 levels. With a limit above
//     half, a tree near the limit would rewrite its last level again and again. Files below the new level L merge with level L.
// The tiered first level (section 3.2) is an additional level 0, as in one_leveling: when it has level0_runs runs, they merge
// into level 1.
#pragma once

#include <string>

#include "policy/leveled.h"

namespace ebbtide {

struct GarneringParameters {
  double size_ratio = 2;     ///< T, the ratio of the last two levels
  double scaling_ratio = 1;  ///< c, in (0, 1]; 1 is leveling
  int level0_runs = 1;
};

/// Returns the capacity of level `level` >= 1 of a tree with `levels` >= 1 levels, in memtables (Eq. 5). Levels deeper than
/// `levels` have the capacity of level `levels`.
double garnering_capacity(const GarneringParameters& parameters, int levels, int level);

class GarneringPolicy final : public Policy {
 public:
  GarneringPolicy(std::string name, const GarneringParameters& parameters);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Plan next(const TreeShape& shape, const PolicyContext& context) const override;
  [[nodiscard]] std::uint64_t debt_bytes(const TreeShape& shape) const override;
  [[nodiscard]] double capacity_bytes(const TreeShape& shape, int level) const override;
  [[nodiscard]] bool by_file() const override { return true; }
  [[nodiscard]] int slowdown_runs() const override;
  [[nodiscard]] int stop_runs() const override;
  [[nodiscard]] std::string check(const TreeShape& shape) const override;
  [[nodiscard]] int levels(const TreeShape& shape) const override;

 private:
  [[nodiscard]] LeveledPolicy leveling_for(const TreeShape& shape) const;
  [[nodiscard]] bool last_is_full(const TreeShape& shape) const;

  const std::string name_;
  const GarneringParameters parameters_;
};

}  // namespace ebbtide
