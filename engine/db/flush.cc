// Memtables become tables (db/background/flush_job.h), and the edit that names them is committed (manifest_editor.h).
//
// The edit relies on what the log has durably, with one exception: the flush after the log failed (recover). It writes every memtable
// that is left, of every tree, and the mapping of databases in a single edit. That makes everything that was visible durable at once.
// The log then continues in a new segment.
//
// Tables whose edit was not tried are unlinked at once. Tables whose edit failed may be named by the manifest's torn end: they are
// unlinked after the next roll.
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
    MutexLock manifest(manifest_.mutex);
    TRY(manifest_.commit_mapping());
  }
  return flush_memtables(trees, kAllMemTables, false);
}

// One memtable after the other, the oldest first: that takes the least room, and each gives back what the log kept for it. A disk
// that is full has little more than what was set aside, and more than that may be waiting.
Status DbImpl::flush_durable(const std::vector<TreePtr>& trees) {
  const bool log_failed = log_->failed();
  {
    MutexLock manifest(manifest_.mutex);
    const Status status = manifest_.commit_mapping();
    // Changes that a failed log does not have durably wait for the rebuild.
    if (!status.is_ok() && !(log_failed && status.code() == Code::kUnknownOutcome)) return status;
  }
  const SeqNum durable = log_failed ? log_->synced_seq() : kMaxSeqNum;
  const auto next = [&]() -> TreePtr {
    MutexLock manifest(manifest_.mutex);
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
    MutexLock manifest(manifest_.mutex);
    TRY(manifest_.roll());
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
  MutexLock manifest(manifest_.mutex);
  manifest_.remove_old_segments();
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
  MutexLock manifest(manifest_.mutex);
  return commit_flush(&built, log_failed);
}

Status DbImpl::commit_flush(BuiltFlush* built, bool log_failed) {
  VersionEdit edit;
  MappingChanges changes;
  if (log_failed) changes = trees_.collect_changes(*versions_, &edit);
  // Trees that were dropped meanwhile: no edit will ever name their tables.
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
    // The edit has everything: nothing before the segment in which the log continues is needed.
    auto fresh = log_->prepare_restart();
    if (!fresh.is_ok()) {
      for (const BuiltFlush::Of& of : built->of) unlink_outputs(of.tree, of.outputs);
      return fresh.status();
    }
    edit.oldest_log = *fresh;
    edit.last_seq = edit.complete_seq = published_.visible_seq();
  } else {
    edit.last_seq = built->relies_on;
    ManifestEditor::Flushed flushed;
    for (const BuiltFlush::Of& of : built->of) flushed[of.tree.get()] += of.memtables;
    manifest_.note_log_needs(flushed, changes, &edit);
  }
  if (Status status = manifest_.commit(std::move(edit)); !status.is_ok()) {
    for (const BuiltFlush::Of& of : built->of) disown_outputs(of.tree, of.outputs);
    return status;
  }
  // The memtables go in the same step in which the tables come: no view has both or neither.
  for (const BuiltFlush::Of& of : built->of) {
    const Status installed = installer_.install(*of.tree, built->opened, of.memtables);
    ASSERT_MSG(installed.is_ok(), "a tree that the manifest has");
  }
  manifest_.finish_mapping(std::move(changes));
  manifest_.remove_old_segments();
  return Status::ok();
}

// Notes in the ledger what may be unlinked: outputs that no edit names for sure, and metadata files of page drops, whose data files stay.
// They hold copies of the tree's entries, so the same deletes are pending in them as in the tree.
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

}  // namespace ebbtide
