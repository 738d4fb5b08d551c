// Decides when the work of tables for delete deadlines starts.
//
// Each tick computes for each tree how much is still to be written for the deadlines (FadeWork), and how long that takes at the
// measured rate of merges. The work begins so much earlier than a deadline (the margin). A memtable is flushed before it is full if
// its oldest delete has used its part of the time. For all trees together a tick computes the part of the measured rate that the
// deadlines need, and the least deadline that could be kept. Writes are slowed down by the former before a deadline is missed.
//
// policy/fade.h makes the plans, from the margin and the budget.
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

/// Thread-safe.
class DeadlineTracker {
 public:
  /// One tree, as of one tick. References outlive the tick.
  struct TreeNow {
    TreeId id = kNoTree;
    DeadlineBudget& budget;
    std::atomic<Millis>& margin;  ///< set: how long before a deadline its work is to be done
    DeadlineRule rule{};
    Millis purge_before = 0;               ///< deletes born by then are overdue
    std::shared_ptr<const void> tables{};  ///< the shape is looked at again when they change, and every kLookEvery
    std::function<TreeShape()> shape{};    ///< with deadlines, and without what no merge can take
    std::shared_ptr<const Policy> policy{};
    std::uint64_t io_budget = 0;      ///< configured, bytes per second; 0 = no limit
    bool disk_is_short = false;       ///< many small merges take longer than the rate says, and make room
    std::vector<Millis> memtables{};  ///< births of their oldest deletes, newest memtable first; 0 = none
    bool frozen_rest = false;         ///< frozen memtables are not on their way to tables
  };
  /// ms after which a shape is looked at again: expiries are births, too.
  static constexpr Millis kLookEvery = 200;

  explicit DeadlineTracker(std::function<void(const std::string& warning)> warn) : warn_(std::move(warn)) {}

  /// Sets margins and budgets. Returns the trees, as indexes, whose memtables are to be flushed. `trees` are all that there are: the
  /// tracker forgets every other tree.
  std::vector<std::size_t> tick(std::span<const TreeNow> trees, Millis now) EXCLUDES(mutex_);
  void note_merge(std::uint64_t bytes, std::uint64_t ns) { rate_.note(bytes, ns); }

  [[nodiscard]] double merge_bytes_per_ms() const { return rate_.bytes_per_ms(); }
  /// Which part of the measured rate the deadlines need, in thousandths; 1000 at most.
  [[nodiscard]] std::uint32_t needed_permille() const { return needed_permille_.load(std::memory_order_relaxed); }
  /// The least deadline that merges could keep at the measured rate; 0 = unknown.
  [[nodiscard]] Millis least_deadline() const { return least_deadline_.load(std::memory_order_relaxed); }
  /// FadeWork::bytes of the tree; 0 if no tick has seen it.
  [[nodiscard]] std::uint64_t work_bytes(TreeId tree) const EXCLUDES(mutex_);
  /// True if half of the margin before the tree's earliest deadline is over: merges for other work are aborted then.
  [[nodiscard]] bool is_late(TreeId tree, Millis margin, Millis now) const EXCLUDES(mutex_);

 private:
  struct TreeState {
    std::shared_ptr<const void> tables{};  // that the rest was computed from, ...
    Millis looked_at = 0;                  // ... and when
    FadeWork work{};
    std::uint64_t final_bytes = 0;   // of files that no older run overlaps
    double memtable_share = 1;       // part of its time that a delete may spend in the memtable
    bool over_budget_known = false;  // the log says already that the deadlines need more than the budget
  };
  bool keep(const TreeNow& tree, Millis now, TreeState* state) REQUIRES(mutex_);
  void look(const TreeNow& tree, Millis now, TreeState* state) REQUIRES(mutex_);
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
  bool too_short_known_ GUARDED_BY(mutex_) = false;  // the log says already that a deadline is shorter than the least
};

}  // namespace ebbtide
