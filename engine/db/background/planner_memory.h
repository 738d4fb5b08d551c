// The state of a tree's planners that lasts longer than a job, in addition to the tree's shape.
//
//   rest       after a failed merge, the tree starts no merge for a time that grows with each failure. Merges for deadlines rest
//              separately, since they may succeed when other merges fail for lack of room
//   pages      the tables in which the last search found no page to drop; the time at which there may be such pages; the partial
//              drops that were tried
//   fruitless  files that still have pending deletes after a rewrite for a deadline (for example the header of a collection whose
//              elements still exist). They are not rewritten again for 5 s
//   bounds     the bound of its policy that the tree exceeds although the policy requests no merge; it is logged only once
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <engine/status.h>
#include "base/backoff.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "compaction/executor.h"
#include "db/background/planners.h"

namespace ebbtide {

/// The planners' state for all trees. Thread-safe.
class PlannerMemory {
 public:
  /// `clock` must outlive this object.
  explicit PlannerMemory(const Clock& clock) : clock_(clock) {}

  /// Sets the fields of `input` that are stored for the tree: rest, pages and fruitless files. The caller has set tables, reads,
  /// now and purge_before. If the caller may read, pages are always searched for.
  void recall(TreeId tree, PlannerInput* input) const EXCLUDES(mutex_);
  /// True if the tree's last merge failed.
  [[nodiscard]] bool merges_fail(TreeId tree) const EXCLUDES(mutex_);

  /// Stores the planners' notes. Returns true if the tree exceeds a bound that it did not exceed before: the caller logs it.
  [[nodiscard]] bool note_planned(TreeId tree, const PlannerInput& input, const PlannerNotes& notes) EXCLUDES(mutex_);
  /// Stores the result of a job: after a failed merge, the tree starts no merge for a while. kAborted has no effect.
  void note_ended(TreeId tree, bool for_deadline, const Status& status) EXCLUDES(mutex_);
  /// Call it before the outputs of `plan` on `version` are installed. If the plan is a rewrite for a deadline with bottommost
  /// outputs, marks each output that still has a pending delete as fruitless.
  void note_outputs(const Plan& plan, const Version& version, const std::vector<FileMeta>& outputs, Millis now) EXCLUDES(mutex_);
  /// Makes the next planning try the tree's fruitless files again: the cause that kept their deletes pending may no longer exist.
  void forget_fruitless(TreeId tree) EXCLUDES(mutex_);
  /// Call it after a page drop on `before` was installed. Stores which tables' partial drops were tried, forgets tables that are
  /// not in `after`, and makes the next planning search for pages again. No effect if `result` has no such table.
  void note_dropped(const Version& before, const CompactionResult& result, const TablesView& after) EXCLUDES(mutex_);
  /// Forgets a tree that was dropped.
  void forget(TreeId tree) EXCLUDES(mutex_);

 private:
  struct TreeState {
    Backoff merges, deadline_merges;
    std::weak_ptr<const TablesView> pages_of;    // the tables of the last search for pages to drop
    Millis pages_purged_by = 0;                  // PlannerInput::purge_before of that search
    Millis next_page_look = 0;                   // PlannerNotes::next_page_look of that search
    std::map<FileNum, SeqNum> parts_done;        // PlannerInput::parts_done
    std::map<FileNum, std::uint64_t> fruitless;  // value: mono_ns() of the next try
    std::string broken_bounds;
  };

  const Clock& clock_;
  mutable Mutex mutex_;
  std::map<TreeId, TreeState> trees_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
