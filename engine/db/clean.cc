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

void DbImpl::unpin_log(const std::shared_ptr<LogPin>& pin) {
  MutexLock manifest(manifest_mutex_);
  log_pins_.unpin(pin);
  remove_old_segments();
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

Status DbImpl::shorten_log_and_manifest(bool roll) {
  MutexLock manifest(manifest_mutex_);
  if (closing_) return Status::ok();
  TRY(advance_log());
  return health_.is_ok() && roll && !closing_ ? roll_manifest() : Status::ok();
}

// What no flush said because there was nothing to flush: that older segments are needed no more.
Status DbImpl::advance_log() {
  if (!health_.is_ok()) return Status::ok();
  VersionEdit edit;
  note_log_needs(nullptr, {}, &edit);
  if (*edit.oldest_log == kNoFile || *edit.oldest_log <= versions_->oldest_log()) return Status::ok();
  TRY(commit_edit(std::move(edit)));
  remove_old_segments();
  return Status::ok();
}

Status DbImpl::roll_manifest() {
  const std::string old = manifest_file_name(versions_->manifest_file());
  const std::uint64_t bytes = versions_->manifest_bytes();
  Status status = versions_->roll();
  if (!status.is_ok()) return status.with_context("manifest");
  ledger_.rolled(old, bytes, {});
  return Status::ok();
}

// Segments that are about to go, for the ledger.
void DbImpl::leave_segments(FileNum oldest) {
  if (log_->segments_below(oldest).empty()) return;
  SeqNum up_to = 0;
  const Millis now = fence(&up_to);
  const std::vector<LogSegment> all = log_->segments();
  const auto debts = log_debts(all, now);
  for (std::size_t i = 0; i < all.size() && all[i].file < oldest; ++i) {
    PurgeLedger::Leaving file{log_file_name(all[i].file), all[i].bytes, {}, all[i].open};
    for (std::size_t n = 0; n < debts[i].size(); ++n) file.floors[all[i].notes[n].tree] = debts[i][n] == 0 ? now : debts[i][n];
    if (!file.floors.empty()) ledger_.leave(std::move(file));
  }
}

}  // namespace ebbtide
