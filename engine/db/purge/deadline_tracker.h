// Decides when the work of tables for delete deadlines starts.
//
// For each tree, a tick computes how many bytes merges must still write for the deadlines (FadeWork). From that follows the
// margin: the time by which merges begin before the deadline. A memtable is flushed before it is full if its oldest delete has
// been in memory for the share of the deadline that memtables may use (memtable_share). For all trees together, a tick computes
// the fraction of the measured merge rate that the deadlines need, and the shortest feasible deadline. If the fraction comes near
// 1, writes are slowed down before a deadline is missed.
//
// policy/fade.h makes the plans from the margin and the budget.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <engine/types.h>
#include "base/mutex.h"
#include "db/purge/deadline_rates.h"
#include "db/trees/deadline_budget.h"
#include "deletes/deadline.h"
#include "policy/fade.h"
#include "policy/policy.h"
#include "tree/shape.h"

namespace ebbtide {

/// Tracks the deadlines of all trees. Thread-safe.
class DeadlineTracker {
 public:
  /// The state of one tree for one tick. The references must outlive the tick.
  struct TreeNow {
    TreeId id = kNoTree;
    DeadlineBudget& budget;
    std::atomic<Millis>& margin;  ///< output: ms before a deadline at which merges for it must be done
    DeadlineRule rule{};
    Millis purge_before = 0;               ///< deletes born by this time are overdue
    std::shared_ptr<const void> tables{};  ///< shape() is called again when `tables` changes, and every kLookEvery ms
    std::function<TreeShape()> shape{};    ///< returns the tree's shape with deadlines, without files that no merge can take
    std::shared_ptr<const Policy> policy{};
    std::uint64_t io_budget = 0;  ///< configured budget in bytes per second; 0 = no limit
    /// True if the disk has little space: then merges are many and small, and slower than the measured rate.
    bool disk_is_short = false;
    std::vector<Millis> memtables{};  ///< births of the memtables' oldest deletes, newest memtable first; 0 = none
    bool frozen_rest = false;         ///< true if frozen memtables are not being flushed
  };
  /// Time after which a shape is computed again, in ms: entries expire meanwhile and so become pending deletes.
  static constexpr Millis kLookEvery = 200;

  explicit DeadlineTracker(std::function<void(const std::string& warning)> warn) : warn_(std::move(warn)) {}

  /// Sets margins and budgets. Returns the indexes of trees whose memtables must be flushed. `trees` must have all trees: the
  /// tracker forgets every other tree.
  std::vector<std::size_t> tick(std::span<const TreeNow> trees, Millis now) EXCLUDES(mutex_);
  void note_merge(std::uint64_t bytes, std::uint64_t ns) { rate_.note(bytes, ns); }

  [[nodiscard]] double merge_bytes_per_ms() const { return rate_.bytes_per_ms(); }
  /// Returns the fraction of the measured merge rate that the deadlines need, in thousandths; at most 1000.
  [[nodiscard]] std::uint32_t needed_permille() const { return needed_permille_.load(std::memory_order_relaxed); }
  /// Returns the shortest deadline that merges can meet at the measured rate, in ms; 0 = unknown.
  [[nodiscard]] Millis least_deadline() const { return least_deadline_.load(std::memory_order_relaxed); }
  /// Returns FadeWork::bytes of the tree; 0 before its first tick.
  [[nodiscard]] std::uint64_t work_bytes(TreeId tree) const EXCLUDES(mutex_);
  /// True if half of the margin before the tree's earliest deadline is used up. Then merges for other work may be aborted.
  [[nodiscard]] bool is_late(TreeId tree, Millis margin, Millis now) const EXCLUDES(mutex_);

 private:
  struct TreeState {
    std::shared_ptr<const void> tables{};  // the tables from which the other fields were computed
    Millis looked_at = 0;                  // engine time at which the other fields were computed
    FadeWork work{};
    std::uint64_t final_bytes = 0;   // bytes of files that no older run overlaps
    std::uint64_t bytes = 0;         // bytes of all files when final_bytes was counted
    double memtable_share = 1;       // share of its deadline that a delete may spend in the memtable
    bool over_budget_known = false;  // true once "the deadlines need more than the budget" was logged
  };
  bool keep(const TreeNow& tree, Millis now, TreeState* state) REQUIRES(mutex_);
  void look(const TreeNow& tree, Millis now, TreeState* state) REQUIRES(mutex_);
  static void look_at_final_bytes(const TreeShape& shape, TreeState* state);
  static bool exceeds_budget(const TreeNow& tree, TreeState* state);
  void forget_others(std::span<const TreeNow> trees) REQUIRES(mutex_);
  [[nodiscard]] FadeWork work_of(TreeId tree) const EXCLUDES(mutex_);
  void report_least(std::span<const TreeNow> trees, std::uint64_t final_bytes) EXCLUDES(mutex_);

  const std::function<void(const std::string&)> warn_;
  MergeRate rate_;
  std::atomic<std::uint32_t> needed_permille_{0};
  std::atomic<Millis> least_deadline_{0};
  mutable Mutex mutex_;
  std::map<TreeId, TreeState> states_ GUARDED_BY(mutex_);
  bool too_short_known_ GUARDED_BY(mutex_) = false;  // true once "a deadline is shorter than feasible" was logged
};

}  // namespace ebbtide
