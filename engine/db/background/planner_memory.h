// The state of a tree's planners between jobs, beside the tree's shape.
//
//   rest       after a merge failed, merges of the tree rest for a while, and ever longer; merges for deadlines have a rest of
//              their own, since they may succeed where others fail for lack of room
//   pages      when page drop found nothing in these tables, and when there may be more; which partial drops were tried
//   fruitless  files that a rewrite for a deadline did not clean (the header of a collection whose elements are not gone yet):
//              not rewritten again for 5 s
//   bounds     which bound of its policy the tree breaks at rest, so that it is logged once
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

/// Thread-safe.
class PlannerMemory {
 public:
  /// `clock` outlives it.
  explicit PlannerMemory(const Clock& clock) : clock_(clock) {}

  /// Sets the fields of `input` that are remembered for the tree: rest, pages and fruitless files. The caller has set tables, now and
  /// purge_before.
  void recall(TreeId tree, PlannerInput* input) const EXCLUDES(mutex_);
  /// True if the tree's last merge failed.
  [[nodiscard]] bool merges_fail(TreeId tree) const EXCLUDES(mutex_);

  /// Stores the planners' notes. True if the tree breaks a bound that it did not break before: log it.
  [[nodiscard]] bool note_planned(TreeId tree, const PlannerInput& input, const PlannerNotes& notes) EXCLUDES(mutex_);
  /// Notes the result of a job. kAborted has no effect.
  void note_ended(TreeId tree, bool for_deadline, const Status& status) EXCLUDES(mutex_);
  /// Notes the outputs of `plan` on `version`, before they are installed: a rewrite for a deadline may have been fruitless.
  void note_outputs(const Plan& plan, const Version& version, const std::vector<FileMeta>& outputs, Millis now) EXCLUDES(mutex_);
  /// Notes that a drop of pages of `before` was installed; `after`: the tree's new tables.
  void note_dropped(const Version& before, const CompactionResult& result, const TablesView& after) EXCLUDES(mutex_);
  /// The tree was dropped.
  void forget(TreeId tree) EXCLUDES(mutex_);

 private:
  struct TreeState {
    Backoff merges, deadline_merges;
    std::weak_ptr<const TablesView> pages_of;    // the tables of the last search for pages to drop
    Millis pages_purged_by = 0;                  // PlannerInput::purge_before of that search
    Millis next_page_look = 0;                   // PlannerNotes::next_page_look of that search
    std::map<FileNum, SeqNum> parts_done;        // PlannerInput::parts_done
    std::map<FileNum, std::uint64_t> fruitless;  // the value is the mono_ns() of the next try
    std::string broken_bounds;
  };

  const Clock& clock_;
  mutable Mutex mutex_;
  std::map<TreeId, TreeState> trees_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
