#include "db/purge/log_retirer.h"

#include <algorithm>

#include "db/purge/retention.h"

namespace ebbtide {

void revoke_hindering_leases(LeaseRegistry* leases, const PurgeSurvey& survey) {
  leases->revoke_if([&](const TreeView& view) {
    // True if the tree has replaced the table, and a delete in the table is due: the lease keeps the table's files.
    const auto hinders = [&](const OpenTablePtr& table) {
      return table->obsolete.load(std::memory_order_acquire) &&
             survey.is_due(view.tree, table->floor.load(std::memory_order_relaxed), kRevokeEighths);
    };
    return std::any_of(view.tables->runs.begin(), view.tables->runs.end(),
                       [&](const RunView& run) { return std::any_of(run.tables().begin(), run.tables().end(), hinders); });
  });
}

void LogRetirer::flush(TreeId id, bool freeze_active) {
  MutexLock lock(env_.trees->commit_mutex);
  const TreePtr tree = env_.trees->live_tree(id);
  if (tree == nullptr) return;
  if (freeze_active) env_.trees->freeze(*tree);
  env_.hurry(tree);
}

void LogRetirer::retire_until(FileNum last) {
  env_.end_segment(last);
  SeqNum last_seq = 0;
  for (const LogSegment& segment : env_.segments()) {
    if (segment.file <= last) last_seq = std::max(last_seq, segment.needed_seq());
  }
  MutexLock lock(env_.trees->commit_mutex);
  for (const auto& [id, tree] : env_.trees->live()) {
    if (tree->active_first_seq != 0 && tree->active_first_seq <= last_seq) env_.trees->freeze(*tree);
    bool keeps = false;
    {
      MutexLock state(env_.trees->state_mutex);
      keeps = !tree->frozen.empty() && tree->frozen.front().first_seq <= last_seq;
    }
    if (keeps) env_.hurry(tree);
  }
}

}  // namespace ebbtide
