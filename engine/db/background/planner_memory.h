// What planners remember of a tree from one job to the next, beside its shape.
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

  /// Sets what is remembered of the tree: rest, pages and fruitless files. Of the input, tables, now and purge_before are set.
  void recall(TreeId tree, PlannerInput* input) const EXCLUDES(mutex_);
  /// True if merges of the tree failed when last tried.
  [[nodiscard]] bool merges_fail(TreeId tree) const EXCLUDES(mutex_);

  /// Planners were asked. True if the tree breaks a bound that it did not break before: to be logged.
  [[nodiscard]] bool note_planned(TreeId tree, const PlannerInput& input, const PlannerNotes& notes) EXCLUDES(mutex_);
  /// A job has ended. kAborted says nothing.
  void note_ended(TreeId tree, bool for_deadline, const Status& status) EXCLUDES(mutex_);
  /// `plan` was carried out on `version` and is about to be installed: a rewrite for a deadline may have been fruitless.
  void note_outputs(const Plan& plan, const Version& version, const std::vector<FileMeta>& outputs, Millis now) EXCLUDES(mutex_);
  /// A drop of pages of `before` was installed; `after`: the tree's tables since then.
  void note_dropped(const Version& before, const CompactionResult& result, const TablesView& after) EXCLUDES(mutex_);
  /// The tree is gone.
  void forget(TreeId tree) EXCLUDES(mutex_);

 private:
  struct TreeState {
    Backoff merges, deadline_merges;
    std::weak_ptr<const TablesView> pages_of;    // tables of the last look for pages, ...
    Millis pages_purged_by = 0;                  // ... its purge_before, ...
    Millis next_page_look = 0;                   // ... and PlannerNotes::next_page_look
    std::map<FileNum, SeqNum> parts_done;        // PlannerInput::parts_done
    std::map<FileNum, std::uint64_t> fruitless;  // the value is the mono_ns() of the next try
    std::string broken_bounds;
  };

  const Clock& clock_;
  mutable Mutex mutex_;
  std::map<TreeId, TreeState> trees_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
