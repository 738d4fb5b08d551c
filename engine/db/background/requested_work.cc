#include "db/background/requested_work.h"

#include "db/background/full_merge.h"
#include "policy/around.h"
#include "tree/frozen.h"

namespace ebbtide {

Status RequestedWork::flush(DatabaseId database) {
  TreePtr tree;
  SeqNum up_to = 0;
  {
    MutexLock lock(env_.trees->commit_mutex);
    if (env_.trees->has_number(database)) tree = env_.trees->mapped(database);
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
    Started started;
    const auto start_now = [&]() NO_THREAD_SAFETY_ANALYSIS { return start(*tree, range, &started); };  // the state mutex is held
    TRY(env_.progress->wait_until(start_now));
    if (!started.job) return Status::ok();
    const Status status = env_.run(tree, *started.job);
    env_.finish(tree, *started.job);
    // If the job was aborted for an urgent plan, that plan starts now. Otherwise the next attempt would take the plan's files
    // again.
    const bool aborted = status.code() == Code::kAborted;
    if (aborted) env_.schedule(tree);
    env_.progressed();
    if (aborted || (started.cuts && status.is_ok())) continue;
    return tree->dropped ? Status::ok() : status;
  }
}

bool RequestedWork::start(Tree& tree, const KeyRange& range, Started* started) const {
  if (tree.dropped || tree.view_owner == nullptr) return true;
  const Version& version = *tree.view_owner->tables->version;
  TreeShape shape =
      version.shape(tree.settings.memtable_size, tree.settings.file_size, 0, 0, [&](FileNum f) { return tree.jobs.is_busy(f); });
  bool busy = false;
  Plan plan = plan_cut(shape, &busy);
  started->cuts = !plan.empty();
  if (!started->cuts && !busy) {
    leave_out_frozen(&shape);
    plan = plan_full_merge(shape, range, &busy);
  }
  if (busy && !started->cuts) return false;
  if (plan.empty()) return true;
  started->job = tree.jobs.start(plan, version);
  return started->job.has_value();
}

}  // namespace ebbtide
