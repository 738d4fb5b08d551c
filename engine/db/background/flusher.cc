#include "db/background/flusher.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/invariant.h"

namespace ebbtide {

Status Flusher::flush(const std::vector<TreePtr>& trees) {
  {
    MutexLock manifest(env_.manifest->mutex);
    TRY(env_.manifest->commit_mapping());
  }
  return flush_memtables(trees, kAllMemTables, false);
}

// Flushes one memtable after another, the oldest first. This order needs the least disk space, since each flush frees log
// segments. A full disk has little more than the reserve left, which may be too little for all memtables together.
Status Flusher::flush_durable(const std::vector<TreePtr>& trees) {
  const bool log_failed = env_.log_failed();
  {
    MutexLock manifest(env_.manifest->mutex);
    const Status status = env_.manifest->commit_mapping();
    // If the failed log lacks changes of the mapping, the manifest gets them later, with the flush of all memtables.
    if (!status.is_ok() && !(log_failed && status.code() == Code::kUnknownOutcome)) return status;
  }
  const SeqNum durable = log_failed ? env_.synced_seq() : kMaxSeqNum;
  const auto next = [&]() -> TreePtr {
    MutexLock manifest(env_.manifest->mutex);
    MutexLock lock(env_.trees->state_mutex);
    TreePtr oldest;
    for (const TreePtr& tree : trees) {
      if (tree->frozen.empty() || tree->frozen.front().last_seq > durable || env_.versions().tree(tree->id) == nullptr) continue;
      if (oldest == nullptr || tree->frozen.front().first_seq < oldest->frozen.front().first_seq) oldest = tree;
    }
    return oldest;
  };
  for (TreePtr tree = next(); tree != nullptr; tree = next()) TRY(flush_memtables({tree}, 1, false));
  return Status::ok();
}

// Rolls the manifest first: the new manifest decides whether the edit whose write failed took effect.
Status Flusher::recover() {
  std::vector<TreePtr> trees;
  {
    MutexLock manifest(env_.manifest->mutex);
    TRY(env_.manifest->roll());
    env_.obsolete_files->queue_disowned();
  }
  env_.obsolete_files->remove_queued();  // frees space that files of earlier failed attempts occupy
  const bool log_failed = env_.log_failed();
  if (log_failed) env_.salvage();
  SeqNum last_seq = 0;
  {
    // The database is already read-only, so no batch gets a seq after last_seq() below.
    MutexLock lock(env_.trees->commit_mutex);
    for (const auto& [id, tree] : env_.trees->live()) trees.push_back(tree);
    if (log_failed) {
      for (const TreePtr& tree : trees) env_.trees->freeze(*tree);
    }
    last_seq = env_.last_seq();
  }
  // The failed log will restart after last_seq, so the flush must include every operation up to last_seq. Wait until all of
  // them are in memtables.
  if (log_failed) env_.await_visible(last_seq);
  TRY(flush_durable(trees));
  if (!log_failed) return Status::ok();
  TRY(flush_memtables(trees, kAllMemTables, true));
  env_.restart(last_seq);
  MutexLock manifest(env_.manifest->mutex);
  env_.manifest->remove_old_segments();
  return Status::ok();
}

// Readers and compactions continue while the tables are built: only the edit and its install need the manifest.
Status Flusher::flush_memtables(const std::vector<TreePtr>& trees, std::size_t most, bool log_failed) {
  BuiltFlush built;
  std::vector<std::shared_ptr<const int>> working;
  {
    MutexLock lock(env_.trees->state_mutex);
    for (const TreePtr& tree : trees) working.push_back(tree->work);
  }
  Status status = build(trees, most, &built);
  if (status.is_ok() && !log_failed) {
    if (built.of.empty()) return Status::ok();
    status = env_.wait_synced(built.relies_on);
  }
  if (!status.is_ok()) {
    discard(built, trees);
    return status;
  }
  MutexLock manifest(env_.manifest->mutex);
  return commit(&built, log_failed);
}

Status Flusher::flush_replayed(const std::vector<TreePtr>& trees) {
  BuiltFlush built;
  if (Status status = build(trees, kAllMemTables, &built); !status.is_ok()) {
    discard(built, trees);
    return status;
  }
  MutexLock manifest(env_.manifest->mutex);
  built.edit.last_seq = built.relies_on;
  if (Status status = env_.versions().commit(std::move(built.edit)); !status.is_ok()) {
    disown(built);
    return status.with_context("manifest");
  }
  for (const BuiltFlush::Of& of : built.of) env_.installer->install_replayed(*of.tree, built.opened, of.memtables);
  return Status::ok();
}

Status Flusher::build(const std::vector<TreePtr>& trees, std::size_t most, BuiltFlush* built) {
  const Millis now = env_.now();
  for (const TreePtr& tree : trees) TRY(env_.job->build(tree, most, now, built));
  return Status::ok();
}

// Unlinks the tables of `built`, which no edit names. A failed build has already unlinked its own tables. note_failure() lists
// all these tables in the purge ledger until the unlinks are durable.
void Flusher::discard(const BuiltFlush& built, const std::vector<TreePtr>& trees) {
  for (const BuiltFlush::Of& of : built.of) env_.outputs->unlink(of.tree, of.outputs);
  for (const TreePtr& tree : trees) env_.outputs->note_failure(tree);
}

void Flusher::disown(const BuiltFlush& built) {
  for (const BuiltFlush::Of& of : built.of) env_.outputs->disown(of.tree, of.outputs);
}

Status Flusher::commit(BuiltFlush* built, bool log_failed) {
  VersionEdit edit;
  MappingChanges changes;
  if (log_failed) changes = env_.trees->collect_changes(env_.versions(), &edit);
  // If a tree was dropped while its tables were built, no edit will ever name these tables.
  std::set<TreeId> created, dropped;
  for (const TreeEdit& tree : edit.trees) (tree.create ? created : dropped).insert(tree.tree);
  const auto gone = [&](TreeId id) {
    return dropped.count(id) != 0 || (env_.versions().tree(id) == nullptr && created.count(id) == 0);
  };
  for (const BuiltFlush::Of& of : built->of) {
    if (gone(of.tree->id)) env_.outputs->unlink(of.tree, of.outputs);
  }
  std::erase_if(built->of, [&](const BuiltFlush::Of& of) { return gone(of.tree->id); });
  for (TreeEdit& tree : built->edit.trees) {
    if (!gone(tree.tree)) edit.trees.push_back(std::move(tree));
  }
  if (log_failed) {
    // After the edit, tables have all data. So no segment before the one in which the log continues is needed.
    auto fresh = env_.prepare_restart();
    if (!fresh.is_ok()) {
      for (const BuiltFlush::Of& of : built->of) env_.outputs->unlink(of.tree, of.outputs);
      return fresh.status();
    }
    edit.oldest_log = *fresh;
    edit.last_seq = edit.complete_seq = env_.visible_seq();
  } else {
    edit.last_seq = built->relies_on;
    ManifestEditor::Flushed flushed;
    for (const BuiltFlush::Of& of : built->of) flushed[of.tree.get()] += of.memtables;
    env_.manifest->note_log_needs(flushed, changes, &edit);
  }
  if (Status status = env_.manifest->commit(std::move(edit)); !status.is_ok()) {
    disown(*built);
    return status;
  }
  // One step adds the tables and removes the memtables, so that each view has every entry either in a memtable or in a table.
  for (const BuiltFlush::Of& of : built->of) {
    const auto installed = env_.installer->install(*of.tree, built->opened, of.memtables);
    ASSERT_MSG(installed.is_ok(), "a tree that the manifest has is not dropped");
  }
  env_.manifest->finish_mapping(std::move(changes));
  env_.manifest->remove_old_segments();
  return Status::ok();
}

}  // namespace ebbtide
