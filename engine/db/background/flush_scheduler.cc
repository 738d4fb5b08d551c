#include "db/background/flush_scheduler.h"

#include "tree/frozen.h"

namespace ebbtide {
namespace {
// Largest number of memtables of a tree that may wait for a merge: half of the number at which writes wait.
constexpr std::size_t kMostAwaitMerge = 4;
constexpr std::size_t kMaxFlushGroup = 256;  // most trees that are flushed in one edit

std::uint64_t frozen_bytes_of(const Tree& tree) {
  std::uint64_t bytes = 0;
  for (const FrozenMemTable& f : tree.frozen) bytes += f.memtable->memory_bytes();
  return bytes;
}
}  // namespace

void FlushScheduler::schedule(const TreePtr& tree) {
  {
    MutexLock lock(*env_.state_mutex);
    if (tree->flush_queued || tree->frozen.empty() || tree->frozen_rest || !env_.may_flush()) return;
    tree->flush_queued = true;
  }
  env_.submit([this, tree] { run(tree); });
}

void FlushScheduler::hurry(const TreePtr& tree) {
  {
    MutexLock lock(*env_.state_mutex);
    if (tree->frozen.empty()) return;
    tree->flush_hurries = true;
    tree->frozen_rest = false;
  }
  schedule(tree);
}

// True if a flush of the tree should wait for a merge: in a static schedule, the merge that belongs to a flush is done before the
// next flush. The flush does not wait if no merge can run, if more than kMostAwaitMerge memtables wait, or if the flush is
// urgent. The next merge then brings the number of runs within its bound again. The caller holds the state mutex.
bool FlushScheduler::has_pending_merge(const Tree& tree) const {
  if (tree.view_owner == nullptr || !tree.policy->by_schedule() || env_.compactions->paused()) return false;
  if (tree.flush_hurries || tree.frozen.size() > kMostAwaitMerge) return false;
  TreeShape shape = tree.view_owner->tables->version->shape_at(tree.settings.memtable_size, tree.settings.file_size, 0);
  leave_out_frozen(&shape);
  return !tree.policy->next(shape, {}).empty();
}

bool FlushScheduler::awaits_merge(const TreePtr& tree) {
  {
    MutexLock lock(*env_.state_mutex);
    if (!has_pending_merge(*tree)) return false;
  }
  env_.compactions->schedule(tree);
  MutexLock lock(*env_.state_mutex);
  tree->flush_waits = tree->jobs.running() > 0 && has_pending_merge(*tree);
  return tree->flush_waits;
}

// Returns `tree` and other trees with urgent flushes, as long as all their frozen memtables together are no larger than one full
// memtable. Marks the trees as being flushed. Returns an empty list if another flush is flushing `tree`: at its end, that flush
// schedules the flush of remaining memtables.
std::vector<TreePtr> FlushScheduler::begin_group(const TreePtr& tree) {
  std::vector<TreePtr> group = {tree};
  const std::vector<TreePtr> trees = env_.trees();
  MutexLock lock(*env_.state_mutex);
  if (tree->flushing) return {};
  tree->flushing = true;
  if (!tree->flush_hurries) return group;
  const std::uint64_t most = tree->settings.memtable_size;
  std::uint64_t bytes = frozen_bytes_of(*tree);
  for (const TreePtr& other : trees) {
    if (group.size() == kMaxFlushGroup || bytes >= most) break;
    if (other->flushing || !other->flush_hurries || other->frozen.empty() || other->dropped) continue;
    const std::uint64_t more = frozen_bytes_of(*other);
    if (bytes + more > most) continue;
    bytes += more;
    other->flushing = true;
    group.push_back(other);
  }
  return group;
}

void FlushScheduler::run(const TreePtr& tree) {
  Status status;
  std::vector<TreePtr> group;
  {
    FlushGateShared flushing(*env_.gate);
    {
      MutexLock lock(*env_.state_mutex);
      tree->flush_queued = false;
      if (tree->frozen.empty() && tree->view_owner != nullptr) return;  // the flush of another tree included this tree
    }
    if (!tree->dropped && !env_.closing()) {
      if (awaits_merge(tree)) return;
      group = begin_group(tree);
      if (group.empty()) return;
      status = env_.flush(group);
    }
  }
  if (!status.is_ok() && status.code() != Code::kAborted) env_.failed(status);
  {
    MutexLock lock(*env_.state_mutex);
    for (const TreePtr& flushed : group) {
      flushed->flushing = false;
      if (flushed->frozen.empty()) flushed->flush_hurries = false;
    }
  }
  env_.progressed();
  if (!status.is_ok()) return;  // the database recovers by a flush of all memtables (Health)
  for (const TreePtr& flushed : group) {
    schedule(flushed);
    env_.compactions->schedule(flushed);
  }
}

}  // namespace ebbtide
