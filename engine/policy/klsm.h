// K-LSM (Endure, section 4): level i holds up to K_i runs and merges down as a whole. Each K_i may have any value. A separate
// value K_L may apply to the level that is the last level at the moment. Tiering is K_i = T - 1; lazy leveling is tiering with
// K_L = 1; Fluid LSM (Dostoevsky) has the same K_i for all levels but the last.
//
// The unit of level i is the output of one merge of the level above: size_ratio^i memtables. For level 0 it is a flush. Level i
// holds at most T - 1 units; a run of level i is full at q = ceil((T - 1) / K_i) units. So
//   * a flush merges into the newest run of level 0 if that run then has at most q units, else it opens a new run;
//   * the output of a level merges into the newest run of the next level under the same condition, else it opens a run there;
//   * the T-th unit merges the whole level down, as one run. Runs are never split (T = 6, K = 2: runs of 3 and 2 units).
// Endure's level i is level i - 1 here: memtables are flushed to Endure's level 1.
//
// The number of units of a run is the run's bytes divided by the bytes of a unit, rounded, and at least 1. So units follow from
// the shape alone, and a run that became smaller by updates and deletes takes more data before it is full.
//
// These rules hold while jobs run concurrently:
//   1. a plan takes whole runs of which no file is busy;
//   2. a level's runs are merged into the next level together. While any run of a level is busy, no other job takes runs of that
//      level, so only one job at a time adds data to the next level;
//   3. runs that are being merged into the next level no longer count: data that arrives during the merge opens a new, newer run;
//   4. no data is merged into a level that has its T-th unit and is not busy: that level is merged into the next one first.
#pragma once

#include <string>

#include "policy/leveled.h"

namespace ebbtide {

class KLsmPolicy final : public Policy {
 public:
  /// `vectors`: run_limits are the K_i >= 1; capacities[0] is T - 1 memtables; size_ratio is T (whole, at least 2). `last_runs`:
  /// replaces K_i on the last level that has files; 0 = K_i applies.
  KLsmPolicy(std::string name, LevelVectors vectors, int last_runs);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Plan next(const TreeShape& shape, const PolicyContext& context) const override;
  [[nodiscard]] std::uint64_t debt_bytes(const TreeShape& shape) const override;
  [[nodiscard]] double capacity_bytes(const TreeShape& shape, int level) const override;
  [[nodiscard]] int slowdown_runs() const override;
  [[nodiscard]] int stop_runs() const override;
  [[nodiscard]] std::string check(const TreeShape& shape) const override;

 private:
  struct Level;
  struct Step;
  [[nodiscard]] std::vector<Level> levels_of(const TreeShape& shape) const;
  [[nodiscard]] std::uint64_t units(const TreeShape& shape, std::uint64_t bytes, int level) const;
  [[nodiscard]] int run_limit(int level, int last_level) const;
  [[nodiscard]] int due_runs() const;
  [[nodiscard]] static Step due_step(const Level& level, std::uint64_t ratio);
  [[nodiscard]] Plan merge_down(const TreeShape& shape, const std::vector<Level>& levels, std::size_t at,
                                const PolicyContext& context) const;

  const std::string name_;
  const LevelVectors vectors_;
  const int last_runs_;
};

/// Returns the vectors for K_i = runs[i]; the last value holds for all deeper levels. `runs` has at least one value. A level
/// never has more than T - 1 runs.
LevelVectors klsm_vectors(int size_ratio, std::vector<int> runs);

}  // namespace ebbtide
