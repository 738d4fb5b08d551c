// Delete deadlines of tables: gives db/purge/deadline_tracker.h what it needs of trees, and flushes what it finds due.
//
// Plans for deadlines are made by db/background/planners.h. Deletes that missed their deadline are counted in
// purge/missed_deadlines.h; the log and the manifest are kept by purge/retention.h.
#include "db/db_impl.h"

#include <algorithm>

#include "tree/frozen.h"

namespace ebbtide {
void DbImpl::keep_deadlines(const std::vector<TreeLoad>& loads) {
  const Millis now = time_.now();
  std::vector<DeadlineTracker::TreeNow> trees;
  for (const TreeLoad& load : loads) trees.push_back(deadlines_now(load, now));
  for (const std::size_t due : deadlines_.tick(trees, now)) flush_due(loads[due]);
}

DeadlineTracker::TreeNow DbImpl::deadlines_now(const TreeLoad& load, Millis now) {
  Tree& tree = *load.tree;
  const VersionPtr& version = load.view->tables->version;
  DeadlineTracker::TreeNow out{.id = tree.id, .budget = tree.budget, .margin = tree.margin, .tables = version};
  {
    MutexLock lock(trees_.state_mutex);
    out.rule = tree.deadlines;
    out.frozen_rest = tree.frozen_rest;
  }
  out.purge_before = tree.purge_before.load(std::memory_order_relaxed);
  out.shape = [this, &tree, version, file_size = load.file_size, rule = out.rule, now] {
    TreeShape shape = shape_with_deadlines(tree, *version, settings_.memtable_size, file_size, rule, now);
    leave_out_frozen(&shape);  // there nothing can be done in time
    return shape;
  };
  out.policy = load.policy;
  out.io_budget = load.delete_io_budget;
  out.disk_is_short = is_short(disk_.room(DiskUse::kDeadline), load.file_size);
  for (const auto& memtable : load.view->memtables) out.memtables.push_back(oldest_birth(*memtable, now));
  return out;
}

void DbImpl::flush_due(const TreeLoad& load) {
  MutexLock lock(trees_.commit_mutex);
  const TreePtr tree = trees_.live_tree(load.tree->id);
  if (tree == nullptr) return;
  if (tree->active == load.view->memtables.front().get()) trees_.freeze(*tree);
  flush_scheduler_.hurry(tree);
}

// Nothing if there is nothing to write, or no way to write it now.
Status DbImpl::write_deadlines() {
  if (closing_ || !health_.is_ok()) return Status::ok();
  TRY(commit_database_changes());  // trees that are so new that the manifest does not have them
  VersionEdit edit;
  trees_.add_deadlines(*versions_, &edit);
  if (edit.trees.empty()) return Status::ok();
  Status status = commit_edit(std::move(edit));
  if (!status.is_ok()) trees_.note_deadlines_changed();
  return status;
}

void DbImpl::schedule_deadlines() {
  if (!trees_.deadlines_changed() || deadlines_queued_.exchange(true)) return;
  submit(Priority::kHigh, [this] {
    Status status;
    {
      MutexLock manifest(manifest_mutex_);
      status = write_deadlines();
    }
    deadlines_queued_ = false;
    if (!status.is_ok() && !closing_) health_.failed(status, "a change of the delete deadline");
  });
}

}  // namespace ebbtide
