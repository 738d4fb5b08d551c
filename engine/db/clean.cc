// What retention (db/purge/retention.h) has done to the log, the manifest, memtables and leased views.
#include <algorithm>

#include "db/db_impl.h"
#include "io/file_names.h"

namespace ebbtide {
// Only tables that left the tree while the view was open make it a hindrance.
void DbImpl::revoke_leases(const PurgeSurvey& survey) {
  leases_.revoke_if([&](const TreeView& view) {
    const auto hinders = [&](const OpenTablePtr& table) {
      return table->obsolete.load(std::memory_order_acquire) &&
             survey.is_due(view.tree, table->floor.load(std::memory_order_relaxed), kRevokeEighths);
    };
    return std::any_of(view.tables->runs.begin(), view.tables->runs.end(),
                       [&](const RunView& run) { return std::any_of(run.tables().begin(), run.tables().end(), hinders); });
  });
}

void DbImpl::flush_overdue(TreeId id, bool freeze_active) {
  MutexLock lock(trees_.commit_mutex);
  const TreePtr tree = trees_.live_tree(id);
  if (tree == nullptr) return;
  if (freeze_active) trees_.freeze(*tree);
  flush_scheduler_.hurry(tree);
}

// The segment takes no more, and no memtable keeps it: those that do are flushed, though they be small.
void DbImpl::retire_segment(FileNum file) {
  log_->end_segment(file);
  log_->give_up_pieces(file);
  SeqNum last = 0;
  for (const LogSegment& segment : log_->segments()) {
    if (segment.file <= file) last = std::max(last, segment.needed_seq());
  }
  MutexLock lock(trees_.commit_mutex);
  for (const auto& [id, tree] : trees_.live()) {
    if (tree->active_first_seq != 0 && tree->active_first_seq <= last) trees_.freeze(*tree);
    bool keeps = false;
    {
      MutexLock state(trees_.state_mutex);
      keeps = !tree->frozen.empty() && tree->frozen.front().first_seq <= last;
    }
    if (keeps) flush_scheduler_.hurry(tree);
  }
}

// What was in the skipped part is unknown: its segment goes as if a deadline demanded it.
void DbImpl::retire_skipped() {
  if (skipped_in_ == kNoFile) return;
  retire_segment(skipped_in_);
  retention_.request_clean_up(false);
}

}  // namespace ebbtide
