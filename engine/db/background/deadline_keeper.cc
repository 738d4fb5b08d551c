#include "db/background/deadline_keeper.h"

#include "db/background/compaction_scheduler.h"
#include "tree/frozen.h"

namespace ebbtide {

void DeadlineKeeper::tick(const std::vector<TreeLoad>& loads) {
  const Millis now = env_.now();
  std::vector<DeadlineTracker::TreeNow> trees;
  for (const TreeLoad& load : loads) trees.push_back(deadlines_now(load, now));
  for (const std::size_t due : env_.tracker->tick(trees, now)) flush_due(loads[due]);
}

DeadlineTracker::TreeNow DeadlineKeeper::deadlines_now(const TreeLoad& load, Millis now) const {
  Tree& tree = *load.tree;
  const VersionPtr& version = load.view->tables->version;
  DeadlineTracker::TreeNow out{.id = tree.id, .budget = tree.budget, .margin = tree.margin, .tables = version};
  {
    MutexLock lock(env_.trees->state_mutex);
    out.rule = tree.deadlines;
    out.frozen_rest = tree.frozen_rest;
  }
  out.purge_before = tree.purge_before.load(std::memory_order_relaxed);
  out.shape = [&tree, version, memtable_size = load.memtable_size, file_size = load.file_size, rule = out.rule, now] {
    TreeShape shape = shape_with_deadlines(tree, *version, memtable_size, file_size, rule, now);
    leave_out_frozen(&shape);  // no merge can purge data in a frozen range
    return shape;
  };
  out.policy = load.policy;
  out.io_budget = load.delete_io_budget;
  out.disk_is_short = is_short(env_.room(), load.file_size);
  for (const auto& memtable : load.view->memtables) out.memtables.push_back(oldest_birth(*memtable, now));
  return out;
}

void DeadlineKeeper::flush_due(const TreeLoad& load) {
  MutexLock lock(env_.trees->commit_mutex);
  const TreePtr tree = env_.trees->live_tree(load.tree->id);
  if (tree == nullptr) return;
  if (tree->active == load.view->memtables.front().get()) env_.trees->freeze(*tree);
  env_.hurry(tree);
}

}  // namespace ebbtide
