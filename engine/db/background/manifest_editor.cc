#include "db/background/manifest_editor.h"

#include <algorithm>

#include "io/file_names.h"

namespace ebbtide {

// A commit may roll the manifest before it writes the edit. Then keys of files that earlier edits removed are only in the old
// file. Keys of files that this edit removes are in the new file's snapshot.
Status ManifestEditor::commit(VersionEdit edit) {
  VersionSet& versions = env_.versions();
  env_.trees->add_deadlines(versions, &edit);
  std::map<TreeId, PurgeLedger::Superseded> superseded;
  for (const TreeEdit& change : edit.trees) {
    if (!change.drop && change.removed_files.empty()) continue;
    const TreePtr tree = env_.trees->tree_with(change.tree);
    superseded[change.tree] = {tree == nullptr ? env_.stamped() : env_.floor(tree), env_.now()};
  }
  for (const auto& [tree, what] : superseded) env_.ledger->supersede(tree, what.floor, what.since);
  const FileNum manifest = versions.manifest_file();
  const std::uint64_t bytes = versions.manifest_bytes();
  const Status status = versions.commit(std::move(edit));
  if (versions.manifest_file() != manifest) env_.ledger->rolled(manifest_file_name(manifest), bytes, superseded);
  return status.is_ok() ? status : status.with_context("manifest");
}

Status ManifestEditor::roll() {
  VersionSet& versions = env_.versions();
  const std::string old = manifest_file_name(versions.manifest_file());
  const std::uint64_t bytes = versions.manifest_bytes();
  const Status status = versions.roll();
  if (!status.is_ok()) return status.with_context("manifest");
  env_.ledger->rolled(old, bytes, {});
  return Status::ok();
}

// --- tables

Status ManifestEditor::commit_change(const TableChange& change) {
  MutexLock lock(mutex);
  if (env_.closing()) return Status::aborted("");
  VersionEdit edit = change.make(env_.versions().trees());
  if (edit.trees.empty()) return Status::ok();
  std::vector<TreeId> trees;
  for (const TreeEdit& tree : edit.trees) trees.push_back(tree.tree);
  TRY(commit(std::move(edit)));
  for (const TreeId id : trees) {
    if (const TreePtr tree = env_.trees->tree_with(id); tree != nullptr)
      (void)env_.installer->install(*tree, change.opened, 0);  // kAborted: the tree was dropped
  }
  if (change.installed) change.installed();
  return Status::ok();
}

// Installs the tree's present tables again, since each installation loads and drops some filter slices.
void ManifestEditor::schedule_filter_fit(const TreePtr& tree) {
  if (tree->filter_fit_queued.exchange(true)) return;
  env_.submit_later([this, tree] {
    tree->filter_fit_queued = false;
    MutexLock lock(mutex);
    if (env_.closing() || tree->dropped || env_.versions().tree(tree->id) == nullptr) return;
    (void)env_.installer->install(*tree, {}, 0);  // kAborted: the tree was dropped meanwhile
  });
}

// --- engine time

bool ManifestEditor::try_time_mark(Millis mark, const BootMark& reached) {
  if (!mutex.try_lock()) return false;
  VersionEdit edit;
  edit.time_mark = mark;
  if (reached.boot != 0) edit.boot_mark = reached;
  const LogTip tip = env_.log_tip();
  if (tip.newest > env_.versions().newest_log()) edit.newest_log = tip.newest;
  if (tip.synced > env_.versions().last_seq()) edit.last_seq = tip.synced;
  const Status status = env_.closing() ? Status::aborted("") : commit(std::move(edit));
  mutex.unlock();
  if (!status.is_ok() && !env_.closing()) env_.failed(status, "engine time");
  return status.is_ok();
}

// --- the manifest's file

Status ManifestEditor::check_manifest(const std::function<Status(FileNum manifest, std::uint64_t bytes)>& check) {
  if (!mutex.try_lock()) return Status::ok();
  const VersionSet& versions = env_.versions();
  const bool in_use = !env_.closing() && versions.status().is_ok();
  const Status status = in_use ? check(versions.manifest_file(), versions.manifest_bytes()) : Status::ok();
  mutex.unlock();
  return status;
}

// --- the mapping of databases

void ManifestEditor::schedule_mapping() {
  if (mapping_queued_.exchange(true)) return;
  env_.submit([this] {
    Status status;
    {
      MutexLock lock(mutex);
      mapping_queued_ = false;  // cleared before the commit, so that a concurrent change submits another commit
      if (!env_.closing()) status = commit_mapping();
    }
    if (!status.is_ok()) env_.failed(status, "database change");
    env_.mapping_written();
  });
}

Status ManifestEditor::commit_mapping() {
  VersionEdit edit;
  MappingChanges changes = env_.trees->collect_changes(env_.versions(), &edit);
  if (changes.seq == 0) return Status::ok();
  // finish_mapping() retires dropped trees, whose files are then unlinked. So the operation that dropped a tree must be durable
  // first: otherwise a crash could undo the drop.
  TRY(env_.wait_synced(changes.seq));
  note_log_needs({}, changes, &edit);
  TRY(commit(std::move(edit)));
  finish_mapping(std::move(changes));
  remove_old_segments();
  return Status::ok();
}

void ManifestEditor::finish_mapping(MappingChanges changes) {
  if (changes.seq == 0) return;
  env_.trees->changes_committed(changes);
  env_.await_settled(changes.seq);
  for (TreePtr& tree : changes.dropped) retire(std::move(tree));
}

// Retires a dropped tree. The tree's files are removed with the last view that has them.
void ManifestEditor::retire(TreePtr tree) {
  const TreeId id = tree->id;
  const Millis floor = env_.floor(tree);
  env_.installer->retire(*env_.trees->view_of(*tree)->tables, floor);
  {
    MutexLock lock(env_.trees->state_mutex);
    env_.ledger->leave({"(outputs)", 0, {{id, floor}}, tree->work});  // one entry for all outputs of jobs that still run
  }
  env_.trees->retire(std::move(tree));
  env_.forget(id);
}

// --- delete deadlines

void ManifestEditor::schedule_deadlines() {
  if (!env_.trees->deadlines_changed() || deadlines_queued_.exchange(true)) return;
  env_.submit([this] {
    Status status;
    {
      MutexLock lock(mutex);
      status = commit_deadlines();
    }
    deadlines_queued_ = false;
    if (!status.is_ok() && !env_.closing()) env_.failed(status, "a change of the delete deadline");
  });
}

Status ManifestEditor::commit_deadlines() {
  if (env_.closing() || !env_.healthy()) return Status::ok();
  TRY(commit_mapping());  // writes the trees that the manifest does not have yet
  VersionEdit edit;
  env_.trees->add_deadlines(env_.versions(), &edit);
  if (edit.trees.empty()) return Status::ok();
  const Status status = commit(std::move(edit));
  if (!status.is_ok()) env_.trees->note_deadlines_changed();
  return status;
}

// --- the log

// Sets complete_seq to at most the last seq that is known to be synced. After a power loss, seqs above it may be missing from the
// log, and are then assigned again to other operations.
void ManifestEditor::note_log_needs(const Flushed& flushed, const MappingChanges& changes, VersionEdit* edit) {
  const SeqNum oldest = env_.trees->oldest_needed(flushed, changes);
  edit->oldest_log = env_.oldest_needed(oldest);
  edit->complete_seq = std::min(oldest - 1, std::max(env_.versions().last_seq(), edit->last_seq.value_or(0)));
}

void ManifestEditor::remove_old_segments() {
  log_begins_ = env_.versions().oldest_log();
  const FileNum oldest = std::min(log_begins_.load(), env_.pins->oldest());
  leave_segments(oldest);
  for (const FileNum file : env_.take_segments_below(oldest)) env_.obsolete_files->remove(log_file_name(file));
}

// Adds the log segments that are about to be removed to the purge ledger.
void ManifestEditor::leave_segments(FileNum oldest) {
  if (!env_.has_segments_below(oldest)) return;
  const Millis now = env_.fence();
  const std::vector<LogSegment> all = env_.segments();
  const auto debts = log_debts(all, now);
  for (std::size_t i = 0; i < all.size() && all[i].file < oldest; ++i) {
    PurgeLedger::Leaving file{log_file_name(all[i].file), all[i].bytes, {}, all[i].open};
    for (std::size_t n = 0; n < debts[i].size(); ++n) file.floors[all[i].notes[n].tree] = debts[i][n] == 0 ? now : debts[i][n];
    if (!file.floors.empty()) env_.ledger->leave(std::move(file));
  }
}

void ManifestEditor::unpin(const std::shared_ptr<LogPin>& pin) {
  MutexLock lock(mutex);
  env_.pins->unpin(pin);
  remove_old_segments();
}

Status ManifestEditor::shorten(bool roll_too) {
  MutexLock lock(mutex);
  if (env_.closing()) return Status::ok();
  TRY(advance_log());
  return env_.healthy() && roll_too && !env_.closing() ? roll() : Status::ok();
}

Status ManifestEditor::advance_log() {
  if (!env_.healthy()) return Status::ok();
  VersionEdit edit;
  note_log_needs({}, {}, &edit);
  if (*edit.oldest_log == kNoFile || *edit.oldest_log <= env_.versions().oldest_log()) return Status::ok();
  TRY(commit(std::move(edit)));
  remove_old_segments();
  return Status::ok();
}

}  // namespace ebbtide
