// A merge by hand: flushes, then merges all files of the range into the level of the oldest run that has one.
//
// One merge does it, once no running job is in its way. All that was there when it was asked for takes part. Files take part as a
// whole, so keys beside the range may be merged, too; their tombstones may have to stay. It does not wait for what is flushed
// meanwhile.
#include <utility>

#include "db/background/full_merge.h"
#include "db/db_impl.h"
#include "tree/frozen.h"

namespace ebbtide {

Status DbImpl::compact(DatabaseId database, const KeyRange& range) {
  TreePtr tree = trees_.tree_of(database);
  if (tree == nullptr) return Status::ok();
  TRY(flush(database));
  for (bool done = false; !done;) TRY(compact_step(tree, range, &done));
  return Status::ok();
}

Status DbImpl::compact_step(const TreePtr& tree, const KeyRange& range, bool* done) {
  std::optional<RunningJob> job;
  {
    MutexLock lock(trees_.state_mutex);
    if (tree->dropped || tree->view_owner == nullptr) {
      *done = true;
      return Status::ok();
    }
    const Version& version = *tree->view_owner->tables->version;
    TreeShape shape =
        version.shape(settings_.memtable_size, tree->settings.file_size, 0, 0, [&](FileNum f) { return tree->jobs.is_busy(f); });
    leave_out_frozen(&shape);
    bool busy = false;
    const Plan plan = plan_full_merge(shape, range, &busy);
    if (!busy && plan.empty()) {
      *done = true;
      return Status::ok();
    }
    if (!busy) job = tree->jobs.start(plan, version);
    if (!job) {
      // A running job is in the way: waits for any progress, then looks again.
      if (Status error = health_.error(); !error.is_ok()) return error;
      if (closing_) return Status::aborted("the database is closing");
      if (threads_) progress_.wait_for(trees_.state_mutex, std::chrono::milliseconds(50));
    }
  }
  if (!job) return threads_ || pool_->run_one() ? Status::ok() : Status::aborted("background work is stuck");
  const Status status = CompactionJob(job_env_, tree, *job).run();
  scheduler_.finish(tree, *job);
  {
    MutexLock lock(trees_.state_mutex);
    progress_.notify_all();
  }
  // The plan that it gave way to starts now; the next attempt would take its files again.
  if (status.code() == Code::kAborted) scheduler_.schedule(tree);
  writes_.measure();
  obsolete_files_.remove_queued();
  *done = status.is_ok();
  // Jobs may abort each other; then the range is looked at again.
  return tree->dropped || status.code() == Code::kAborted ? Status::ok() : status;
}

}  // namespace ebbtide
