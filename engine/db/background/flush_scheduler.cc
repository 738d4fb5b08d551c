#include "db/background/flush_scheduler.h"

#include "tree/frozen.h"

namespace ebbtide {
namespace {
constexpr std::size_t kMostAwaitMerge = 4;   // memtables of a tree: half of the number at which writes wait
constexpr std::size_t kMaxFlushGroup = 256;  // trees that are flushed in one edit

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

// A static schedule has a merge for each flush, to be done before the next flush. The flush does not wait if no merge can run, if
// several memtables wait, or if it is urgent: the next merge brings the stack within its bound in any case. The state mutex is
// held.
bool FlushScheduler::has_pending_merge(const Tree& tree) const {
  if (tree.view_owner == nullptr || !tree.policy->by_schedule() || env_.compactions->paused()) return false;
  if (tree.flush_hurries || tree.frozen.size() > kMostAwaitMerge) return false;
  TreeShape shape =
      tree.view_owner->tables->version->shape(env_.memtable_size, tree.settings.file_size, 0, 0, [](FileNum) { return false; });
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

// Returns `tree` and other trees with urgent flushes, as long as all together have at most one full memtable.
std::vector<TreePtr> FlushScheduler::group_of(const TreePtr& tree) {
  std::vector<TreePtr> group = {tree};
  const std::vector<TreePtr> trees = env_.trees();
  MutexLock lock(*env_.state_mutex);
  if (!tree->flush_hurries) return group;
  std::uint64_t bytes = frozen_bytes_of(*tree);
  for (const TreePtr& other : trees) {
    if (group.size() == kMaxFlushGroup || bytes >= env_.memtable_size) break;
    if (other == tree || !other->flush_hurries || other->frozen.empty() || other->dropped) continue;
    const std::uint64_t more = frozen_bytes_of(*other);
    if (bytes + more > env_.memtable_size) continue;
    bytes += more;
    group.push_back(other);
  }
  return group;
}

void FlushScheduler::run(const TreePtr& tree) {
  Status status;
  std::vector<TreePtr> group = {tree};
  {
    MutexLock flushing(*env_.flush_mutex);
    {
      MutexLock lock(*env_.state_mutex);
      tree->flush_queued = false;
      if (tree->frozen.empty() && tree->view_owner != nullptr) return;  // flushed with the group of another tree
    }
    if (!tree->dropped && !env_.closing()) {
      if (awaits_merge(tree)) return;
      group = group_of(tree);
      status = env_.flush(group);
    }
  }
  if (!status.is_ok() && status.code() != Code::kAborted) env_.failed(status);
  {
    MutexLock lock(*env_.state_mutex);
    for (const TreePtr& flushed : group) {
      if (flushed->frozen.empty()) flushed->flush_hurries = false;
    }
  }
  env_.progressed();
  if (!status.is_ok()) return;  // Health retries
  for (const TreePtr& flushed : group) {
    schedule(flushed);
    env_.compactions->schedule(flushed);
  }
}

}  // namespace ebbtide
