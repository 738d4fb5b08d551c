// Policies whose tree is a list of levels. Two vectors define each policy: for each level, the maximum number of runs and the
// maximum number of bytes.
//
// Level 0 receives every flush as a new run. A level is due if it has more runs (level 0: at least as many runs) or more bytes
// than its limit. The level with the largest excess comes first; of equal levels, the smallest. Then:
//   * level 0: all its runs merge, with every file of level 1 within their range, into the run of level 1;
//   * a level over its bytes: one file (file_choice.h) merges with the files of the next level that it overlaps, together with
//     neighbours within the span of those files; a file without overlap moves;
//   * a level with too many runs, which another policy left: the runs merge into the oldest of them.
//
// These rules hold while jobs run concurrently:
//   1. no plan takes or needs a busy file: the policy chooses another plan, or none;
//   2. the runs of level 0 are merged into level 1 together: while a run of level 0 is busy, no second merge of level 0 starts;
//   3. two jobs into one run have disjoint ranges: a job takes every file of the target that its own range overlaps;
//   4. two jobs never make two first runs of one level: while a file of level i is busy, no plan opens a new run at level i + 1;
//   5. while level 0 is due but its merge needs busy files, no new job takes files from level 1. Otherwise such jobs could delay
//      level 0 for ever.
#pragma once

#include <string>
#include <vector>

#include "policy/policy.h"

namespace ebbtide {

/// The parameters of a leveled policy. The last run limit holds for all deeper levels. After the last value, capacities grow by
/// size_ratio per level.
struct LevelVectors {
  std::vector<int> run_limits;     ///< [0]: number of runs at which level 0 merges down; [i]: runs that level i may have
  std::vector<double> capacities;  ///< capacity of each level, in memtables; [0] is level 0
  double size_ratio = 2;

  [[nodiscard]] int run_limit(int level) const;
  /// Returns the capacity of a level in memtables.
  [[nodiscard]] double capacity(int level) const;
};

/// Returns the vectors of leveling, or of 1-leveling with a tiered level 0 of `level0_runs` runs. Level i >= 1 has one run, with
/// a capacity of memtable * max(size_ratio, level0_runs) * size_ratio^(i - 1) bytes. That is T^i memtables, as in Monkey's
/// section 2, unless level 0 alone is larger.
LevelVectors leveling_vectors(double size_ratio, int level0_runs);

class LeveledPolicy final : public Policy {
 public:
  /// Levels from 1 on must have a run limit of 1.
  LeveledPolicy(std::string name, LevelVectors vectors);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Plan next(const TreeShape& shape, const PolicyContext& context) const override;
  [[nodiscard]] std::uint64_t debt_bytes(const TreeShape& shape) const override;
  [[nodiscard]] double capacity_bytes(const TreeShape& shape, int level) const override;
  [[nodiscard]] bool by_file() const override { return true; }
  [[nodiscard]] int slowdown_runs() const override;
  [[nodiscard]] int stop_runs() const override;
  [[nodiscard]] std::string check(const TreeShape& shape) const override;

 private:
  const std::string name_;
  const LevelVectors vectors_;
};

/// Returns true if a file may move to `target` without being read. Returns false if a rewrite at the target could drop entries
/// of the file that a move would keep: tombstones, delete debts, covered or expired entries. A rewrite could not drop these
/// entries if each of their keys has an older entry below the target. The keys are unknown here: the function assumes that they
/// have older entries if a single older file spans the whole range of the file.
bool may_move(const TreeShape& shape, const FileShape& file, const PlanTarget& target, Millis now);

}  // namespace ebbtide
