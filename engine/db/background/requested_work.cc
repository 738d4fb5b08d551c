#include "db/background/requested_work.h"

#include "db/background/full_merge.h"
#include "tree/frozen.h"

namespace ebbtide {

Status RequestedWork::flush(DatabaseId database) {
  TreePtr tree;
  SeqNum up_to = 0;
  {
    MutexLock lock(env_.trees->commit_mutex);
    if (database < env_.trees->databases()) tree = env_.trees->mapped(database);
    if (tree == nullptr) return Status::ok();
    env_.trees->freeze(*tree);
    up_to = env_.last_seq();
  }
  return env_.progress->wait_until(
      [&] { return tree->dropped || tree->frozen.empty() || tree->frozen.front().first_seq > up_to; });
}

Status RequestedWork::compact(DatabaseId database, const KeyRange& range) {
  const TreePtr tree = env_.trees->tree_of(database);
  if (tree == nullptr) return Status::ok();
  TRY(flush(database));
  for (;;) {
    std::optional<RunningJob> job;
    const auto started = [&]() NO_THREAD_SAFETY_ANALYSIS { return start_merge(*tree, range, &job); };  // the state mutex is held
    TRY(env_.progress->wait_until(started));
    if (!job) return Status::ok();
    const Status status = env_.run(tree, *job);
    env_.finish(tree, *job);
    // The plan that it gave way to starts now; the next attempt would take its files again.
    const bool aborted = status.code() == Code::kAborted;
    if (aborted) env_.schedule(tree);
    env_.progressed();
    if (!aborted) return tree->dropped ? Status::ok() : status;
  }
}

// False if a running job is in the way. True without a job: there is nothing to merge.
bool RequestedWork::start_merge(Tree& tree, const KeyRange& range, std::optional<RunningJob>* job) const {
  if (tree.dropped || tree.view_owner == nullptr) return true;
  const Version& version = *tree.view_owner->tables->version;
  TreeShape shape =
      version.shape(env_.memtable_size, tree.settings.file_size, 0, 0, [&](FileNum f) { return tree.jobs.is_busy(f); });
  leave_out_frozen(&shape);
  bool busy = false;
  const Plan plan = plan_full_merge(shape, range, &busy);
  if (busy) return false;
  if (plan.empty()) return true;
  *job = tree.jobs.start(plan, version);
  return job->has_value();
}

}  // namespace ebbtide
