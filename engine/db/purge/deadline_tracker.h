// When the work of tables for delete deadlines starts.
//
// On each tick, of each tree: how much is still to be written for the deadlines (FadeWork), and from the measured rate of merges how
// long that takes. So much earlier than a deadline its work begins (the margin). A memtable whose oldest delete has had its part of
// the time is to be flushed though it is not full. Of all trees together: which part of the measured rate the deadlines need (writes
// are slowed down before a miss, db/write_stall.cc), and the least deadline that could be kept.
//
// Plans are not made here: policy/fade.h makes them, from the margin and the budget.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <engine/types.h>
#include "base/mutex.h"
#include "db/purge/deadline_rates.h"
#include "deletes/deadline.h"
#include "policy/fade.h"
#include "policy/policy.h"
#include "tree/shape.h"

namespace ebbtide {

/// What the tracker knows of one tree; guarded by the tracker's mutex. Its tree keeps it.
class TreeDeadlines {
  friend class DeadlineTracker;
  std::shared_ptr<const void> tables_;  // that this was made out of, and when
  Millis looked_at_ = 0;
  FadeWork work_;
  std::uint64_t final_bytes_ = 0;   // of files that no older run overlaps
  double memtable_share_ = 1;       // part of its time that a delete may spend in the memtable
  bool over_budget_known_ = false;  // that the deadlines need more than the budget was reported
};

/// Thread-safe.
class DeadlineTracker {
 public:
  /// One tree, as of one tick. References outlive the tick.
  struct TreeNow {
    TreeId id = kNoTree;
    TreeDeadlines& state;
    DeadlineBudget& budget;
    std::atomic<Millis>& margin;  ///< set: how long before a deadline its work is to be done
    DeadlineRule rule{};
    Millis purge_before = 0;             ///< what was born by then is overdue
    std::shared_ptr<const void> tables{};  ///< the shape is looked at anew when they are others, and now and then
    std::function<TreeShape()> shape{};  ///< with deadlines, and without what no merge can take
    std::shared_ptr<const Policy> policy{};
    std::uint64_t io_budget = 0;      ///< configured, bytes per second; 0 = no limit
    bool disk_is_short = false;       ///< many small merges take longer than the rate says, and make room
    std::vector<Millis> memtables{};  ///< births of their oldest deletes, newest memtable first; 0 = none
    bool frozen_rest = false;         ///< frozen memtables are not on their way to tables
  };
  /// A shape is looked at anew after so long: births come by expiry, too.
  static constexpr Millis kLookEvery = 200;

  explicit DeadlineTracker(std::function<void(const std::string& warning)> warn) : warn_(std::move(warn)) {}

  /// Sets margins and budgets. Returns the trees, as indexes, whose memtables are to be flushed.
  std::vector<std::size_t> tick(std::span<const TreeNow> trees, Millis now) EXCLUDES(mutex_);
  void note_merge(std::uint64_t bytes, std::uint64_t ns) { rate_.note(bytes, ns); }

  [[nodiscard]] double merge_bytes_per_ms() const { return rate_.bytes_per_ms(); }
  /// Which part of the measured rate the deadlines need, in thousandths; 1000 at most.
  [[nodiscard]] std::uint32_t needed_permille() const { return needed_permille_.load(std::memory_order_relaxed); }
  /// The least deadline that merges could keep at the measured rate; 0 = unknown.
  [[nodiscard]] Millis least_deadline() const { return least_deadline_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t work_bytes(const TreeDeadlines& tree) const EXCLUDES(mutex_);
  /// Whether half of the margin before the tree's earliest deadline is over: merges of other work are to give way.
  [[nodiscard]] bool is_late(const TreeDeadlines& tree, Millis margin, Millis now) const EXCLUDES(mutex_);

 private:
  bool keep(const TreeNow& tree, Millis now) REQUIRES(mutex_);
  void look(const TreeNow& tree, Millis now) REQUIRES(mutex_);
  bool exceeds_budget(const TreeNow& tree) REQUIRES(mutex_);
  void report_least(std::span<const TreeNow> trees, std::uint64_t final_bytes) EXCLUDES(mutex_);

  const std::function<void(const std::string&)> warn_;
  MergeRate rate_;
  std::atomic<std::uint32_t> needed_permille_{0};
  std::atomic<Millis> least_deadline_{0};
  mutable Mutex mutex_;
  bool too_short_known_ GUARDED_BY(mutex_) = false;  // that a deadline is shorter than the least was reported
};

}  // namespace ebbtide
