// Memtables become tables; changes of the mapping of databases reach the manifest.
//
// No edit says more than the log has durably: before an edit is committed the log is synced past the highest seq that it relies
// on. The one exception is the rebuild after the log failed: then every memtable that is left, of every tree, and the mapping of
// databases are written out in a single edit, which makes everything that was visible durable at once, and the log starts anew
// behind it. What the failed log has durably goes before that, as ever (flush_durable).
//
// An edit names the oldest log segment that is needed after it. A segment is removed only when a durable edit says that it may
// go: a crash can undo some removals and not others, and what comes back must not be taken for the log.
//
// Tables without a place: those whose edit was not even tried are unlinked at once; those whose edit failed may be named by the
// manifest's torn end, and go after the next roll.
#include <algorithm>
#include <set>

#include "db/db_impl.h"

#include "base/invariant.h"
#include "io/file_names.h"
#include "tree/frozen.h"

namespace ebbtide {
Status DbImpl::wait_for(const std::function<bool()>& done) {
  for (;;) {
    {
      MutexLock lock(trees_.state_mutex);
      if (done()) return Status::ok();
      if (Status error = health_.error(); !error.is_ok()) return error;
      if (closing_) return Status::aborted("the database is closing");
      if (threads_) progress_.wait_for(trees_.state_mutex, std::chrono::milliseconds(50));
    }
    if (!threads_ && !pool_->run_one()) {
      MutexLock lock(trees_.state_mutex);
      return done() ? Status::ok() : Status::aborted("background work is stuck");
    }
  }
}

Status DbImpl::flush(DatabaseId database) {
  TreePtr tree;
  SeqNum up_to = 0;
  {
    MutexLock lock(trees_.commit_mutex);
    if (database < trees_.databases()) tree = trees_.mapped(database);
    if (tree == nullptr) return Status::ok();
    trees_.freeze(*tree);
    up_to = pipeline_.last_seq();
  }
  return wait_for([&] { return tree->dropped || tree->frozen.empty() || tree->frozen.front().first_seq > up_to; });
}

Status DbImpl::flush_trees(const std::vector<TreePtr>& trees) {
  {
    MutexLock manifest(manifest_mutex_);
    TRY(commit_database_changes());
  }
  return flush_memtables(trees, kAllMemTables, false);
}

// One memtable after the other, the oldest first: that takes the least room, and each gives back what the log kept for it. A disk
// that is full has little more than what was set aside, and more than that may be waiting.
Status DbImpl::flush_durable(const std::vector<TreePtr>& trees) {
  const bool log_failed = log_->failed();
  {
    MutexLock manifest(manifest_mutex_);
    const Status status = commit_database_changes();
    // Changes that a failed log does not have durably wait for the rebuild.
    if (!status.is_ok() && !(log_failed && status.code() == Code::kUnknownOutcome)) return status;
  }
  const SeqNum durable = log_failed ? log_->synced_seq() : kMaxSeqNum;
  const auto next = [&]() -> TreePtr {
    MutexLock manifest(manifest_mutex_);
    MutexLock lock(trees_.state_mutex);
    TreePtr oldest;
    for (const TreePtr& tree : trees) {
      if (tree->frozen.empty() || tree->frozen.front().last_seq > durable || versions_->tree(tree->id) == nullptr) continue;
      if (oldest == nullptr || tree->frozen.front().first_seq < oldest->frozen.front().first_seq) oldest = tree;
    }
    return oldest;
  };
  for (TreePtr tree = next(); tree != nullptr; tree = next()) TRY(flush_memtables({tree}, 1, false));
  return Status::ok();
}

// The way back from read-only: a new manifest, then tables of all that the log has durably. If the log failed, tables of everything,
// and a new log segment.
//
// The new manifest comes first: it settles whether the last edit took effect.
Status DbImpl::recover() {
  std::vector<TreePtr> trees;
  {
    MutexLock manifest(manifest_mutex_);
    TRY(roll_manifest());
    obsolete_files_.queue_disowned();
  }
  obsolete_files_.remove_queued();  // files of the last attempt take the room of this one
  const bool log_failed = log_->failed();
  if (log_failed) log_->salvage();
  SeqNum last_seq = 0;
  {
    // Nothing is committed from here on: the database was made read-only before.
    MutexLock lock(trees_.commit_mutex);
    for (const auto& [id, tree] : trees_.live()) trees.push_back(tree);
    if (log_failed) {
      for (const TreePtr& tree : trees) trees_.freeze(*tree);
    }
    last_seq = pipeline_.last_seq();
  }
  // The edit covers all batches that have a seq. Some may not be visible yet.
  if (log_failed) published_.await(last_seq);
  TRY(flush_durable(trees));
  if (!log_failed) return Status::ok();
  TRY(flush_memtables(trees, kAllMemTables, true));
  log_->restart_after_failure(last_seq);
  MutexLock manifest(manifest_mutex_);
  remove_old_segments();
  return Status::ok();
}

// Readers and compactions go on while the tables are built: only the edit and its install need the manifest.
Status DbImpl::flush_memtables(const std::vector<TreePtr>& trees, std::size_t most, bool log_failed) {
  BuiltFlush built;
  std::vector<std::shared_ptr<const int>> working;
  {
    MutexLock lock(trees_.state_mutex);
    for (const TreePtr& tree : trees) working.push_back(tree->work);
  }
  const Millis now = time_.stamped();
  Status status;
  for (const TreePtr& tree : trees) {
    status = flush_job_.build(tree, most, now, &built);
    if (!status.is_ok()) break;
  }
  if (status.is_ok() && !log_failed) {
    if (built.of.empty()) return Status::ok();
    status = log_->wait_synced(built.relies_on);
  }
  if (!status.is_ok()) {
    for (const BuiltFlush::Of& of : built.of) unlink_outputs(of.tree, of.outputs);
    for (const TreePtr& tree : trees) leave_failed_outputs(tree);
    return status;
  }
  MutexLock manifest(manifest_mutex_);
  return commit_flush(&built, log_failed);
}

Status DbImpl::commit_flush(BuiltFlush* built, bool log_failed) {
  VersionEdit edit;
  MappingChanges changes;
  if (log_failed) changes = trees_.collect_changes(*versions_, &edit);
  // Trees that were dropped meanwhile: nobody will ever name their tables.
  std::set<TreeId> created, dropped;
  for (const TreeEdit& tree : edit.trees) (tree.create ? created : dropped).insert(tree.tree);
  const auto gone = [&](TreeId id) {
    return dropped.count(id) != 0 || (versions_->tree(id) == nullptr && created.count(id) == 0);
  };
  for (const BuiltFlush::Of& of : built->of) {
    if (gone(of.tree->id)) unlink_outputs(of.tree, of.outputs);
  }
  std::erase_if(built->of, [&](const BuiltFlush::Of& of) { return gone(of.tree->id); });
  for (TreeEdit& tree : built->edit.trees) {
    if (!gone(tree.tree)) edit.trees.push_back(std::move(tree));
  }
  if (log_failed) {
    // The edit has everything: nothing before the segment in which the log will begin anew is needed.
    auto fresh = log_->prepare_restart();
    if (!fresh.is_ok()) {
      for (const BuiltFlush::Of& of : built->of) unlink_outputs(of.tree, of.outputs);
      return fresh.status();
    }
    edit.oldest_log = *fresh;
    edit.last_seq = edit.complete_seq = published_.visible_seq();
  } else {
    edit.last_seq = built->relies_on;
    note_log_needs(built, changes, &edit);
  }
  if (Status status = commit_edit(std::move(edit)); !status.is_ok()) {
    for (const BuiltFlush::Of& of : built->of) disown_outputs(of.tree, of.outputs);
    return status;
  }
  // The memtables go in the same step in which the tables come: no view has both or neither.
  for (const BuiltFlush::Of& of : built->of) {
    const Status installed = installer_.install(*of.tree, built->opened, of.memtables);
    ASSERT_MSG(installed.is_ok(), "a tree that the manifest has");
  }
  finish_database_changes(std::move(changes));
  remove_old_segments();
  return Status::ok();
}

// Outputs that no edit names for sure, and metadata files of page drops, whose data files go on being what they were: noted as on
// their way out. They hold copies of what the tree has, so they owe what it owes now.
std::vector<ObsoleteFiles> DbImpl::leave_outputs(const TreePtr& tree, const std::vector<FileMeta>& tables,
                                                 const std::vector<FileMeta>& redescribed) {
  std::vector<ObsoleteFiles> files;
  const PurgeLedger::Floors floors{{tree->id, floor_of(tree)}};
  for (const FileMeta& table : tables) {
    files.push_back({table.data_file, table.metadata_file});
    ledger_.leave({data_file_name(table.data_file), table.data_bytes, floors});
    ledger_.leave({metadata_file_name(table.metadata_file), table.metadata_bytes, floors});
  }
  for (const FileMeta& table : redescribed) {
    files.push_back({kNoFile, table.metadata_file});
    ledger_.leave({metadata_file_name(table.metadata_file), table.metadata_bytes, floors});
  }
  return files;
}

void DbImpl::unlink_outputs(const TreePtr& tree, const std::vector<FileMeta>& tables, const std::vector<FileMeta>& redescribed) {
  for (const ObsoleteFiles& files : leave_outputs(tree, tables, redescribed)) obsolete_files_.remove(files);
}

void DbImpl::disown_outputs(const TreePtr& tree, const std::vector<FileMeta>& tables, const std::vector<FileMeta>& redescribed) {
  obsolete_files_.disown(leave_outputs(tree, tables, redescribed));
}

// What the edit takes out stays named in the manifest that is written to, until that is rolled. A commit may roll it first: then
// what was taken out before is in the old file alone, but this edit's files are in the new one's snapshot.
Status DbImpl::commit_edit(VersionEdit edit) {
  trees_.add_deadlines(*versions_, &edit);
  std::map<TreeId, PurgeLedger::Superseded> superseded;
  for (const TreeEdit& change : edit.trees) {
    if (!change.drop && change.removed_files.empty()) continue;
    const TreePtr tree = trees_.tree_with(change.tree);
    superseded[change.tree] = {tree == nullptr ? time_.stamped() : floor_of(tree), time_.now()};
  }
  for (const auto& [tree, what] : superseded) ledger_.supersede(tree, what.floor, what.since);
  const FileNum manifest = versions_->manifest_file();
  const std::uint64_t bytes = versions_->manifest_bytes();
  Status status = versions_->commit(std::move(edit));
  if (versions_->manifest_file() != manifest) ledger_.rolled(manifest_file_name(manifest), bytes, superseded);
  if (!status.is_ok()) return status.with_context("manifest");
  return status;
}

// Writes changes of delete deadlines, if there are any and the manifest can be written.
Status DbImpl::write_deadlines() {
  if (closing_ || !health_.is_ok()) return Status::ok();
  TRY(commit_database_changes());  // trees that are so new that the manifest does not have them
  VersionEdit edit;
  trees_.add_deadlines(*versions_, &edit);
  if (edit.trees.empty()) return Status::ok();
  Status status = commit_edit(std::move(edit));
  if (!status.is_ok()) trees_.note_deadlines_changed();
  return status;
}

void DbImpl::schedule_deadlines() {
  if (!trees_.deadlines_changed() || deadlines_queued_.exchange(true)) return;
  submit(Priority::kHigh, [this] {
    Status status;
    {
      MutexLock manifest(manifest_mutex_);
      status = write_deadlines();
    }
    deadlines_queued_ = false;
    if (!status.is_ok() && !closing_) health_.failed(status, "a change of the delete deadline");
  });
}

// With which segment the log begins once the edit is committed, and up to where it is only a second copy. Not beyond what is known
// to be synced: seqs that a power loss takes are given out again.
void DbImpl::note_log_needs(const BuiltFlush* built, const MappingChanges& changes, VersionEdit* edit) {
  std::map<const Tree*, std::size_t> flushed;
  if (built != nullptr) {
    for (const BuiltFlush::Of& of : built->of) flushed[of.tree.get()] += of.memtables;
  }
  const SeqNum oldest = trees_.oldest_needed(flushed, changes);
  edit->oldest_log = log_->oldest_needed(oldest);
  edit->complete_seq = std::min(oldest - 1, std::max(versions_->last_seq(), edit->last_seq.value_or(0)));
}

void DbImpl::remove_old_segments() {
  log_begins_ = versions_->oldest_log();
  const FileNum oldest = std::min(versions_->oldest_log(), log_pins_.oldest());
  leave_segments(oldest);
  for (FileNum file : log_->take_segments_below(oldest)) obsolete_files_.remove(log_file_name(file));
}

void DbImpl::schedule_database_changes() {
  {
    MutexLock lock(trees_.state_mutex);
    if (database_changes_queued_) return;
    database_changes_queued_ = true;
  }
  submit(Priority::kHigh, [this] {
    Status status;
    {
      MutexLock manifest(manifest_mutex_);
      {
        MutexLock lock(trees_.state_mutex);
        database_changes_queued_ = false;
      }
      if (!closing_) status = commit_database_changes();
    }
    if (!status.is_ok()) health_.failed(status, "database change");
    {
      MutexLock lock(trees_.state_mutex);
      progress_.notify_all();
    }
    writes_.wake();
    obsolete_files_.remove_queued();
  });
}

Status DbImpl::commit_database_changes() {
  VersionEdit edit;
  MappingChanges changes = trees_.collect_changes(*versions_, &edit);
  if (changes.seq == 0) return Status::ok();
  // Dropping unlinks: it must not be done for an operation that a crash could still take back.
  TRY(log_->wait_synced(changes.seq));
  note_log_needs(nullptr, changes, &edit);
  TRY(commit_edit(std::move(edit)));
  finish_database_changes(std::move(changes));
  remove_old_segments();
  return Status::ok();
}

void DbImpl::finish_database_changes(MappingChanges changes) {
  if (changes.seq == 0) return;
  trees_.changes_committed(changes);
  // A writer that was given a memtable of a dropped tree may still be putting its operation in, and readers may still be sent
  // there.
  published_.await_settled(changes.seq);
  for (TreePtr& tree : changes.dropped) retire_tree(std::move(tree));
}

// Its files go when the last reader lets go of them.
void DbImpl::retire_tree(TreePtr tree) {
  const Millis floor = floor_of(tree);
  installer_.retire(*trees_.view_of(*tree)->tables, floor);
  {
    MutexLock lock(trees_.state_mutex);
    ledger_.leave({"(outputs)", 0, {{tree->id, floor}}, tree->work});  // of jobs that have not noticed yet
  }
  const TreeId id = tree->id;
  trees_.retire(std::move(tree));
  hole_puncher_.forget(id);
  planner_memory_.forget(id);
}

}  // namespace ebbtide
