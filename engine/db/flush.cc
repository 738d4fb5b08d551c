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
namespace {
constexpr std::size_t kMostAwaitMerge = 4;   // memtables of a tree: half of what writes wait for
constexpr std::size_t kMaxFlushGroup = 256;  // trees that are flushed in one edit
constexpr double kSmallFlush = 0.5;          // of a memtable: less does not count in a static schedule
}  // namespace

void DbImpl::publish_view(Tree& tree, std::shared_ptr<const TreeView> view) {
  std::shared_ptr<const TreeView> old = std::move(tree.view_owner);
  tree.view_owner = std::move(view);
  tree.view.store(tree.view_owner.get(), std::memory_order_seq_cst);
  if (old != nullptr) epoch_.retire([old = std::move(old)] {});
}

Status DbImpl::wait_for(const std::function<bool()>& done) {
  for (;;) {
    {
      MutexLock lock(state_mutex_);
      if (done()) return Status::ok();
      if (!background_error_.is_ok()) return background_error_;
      if (closing_) return Status::aborted("the database is closing");
      if (threads_) progress_.wait_for(state_mutex_, std::chrono::milliseconds(50));
    }
    if (!threads_ && !pool_->run_one()) {
      MutexLock lock(state_mutex_);
      return done() ? Status::ok() : Status::aborted("background work is stuck");
    }
  }
}

Status DbImpl::flush(DatabaseId database) {
  TreePtr tree;
  SeqNum up_to = 0;
  {
    MutexLock lock(commit_mutex_);
    if (database < database_trees_.size()) tree = database_trees_[database];
    if (tree == nullptr) return Status::ok();
    freeze(*tree);
    up_to = pipeline_.last_seq();
  }
  return wait_for([&] { return tree->dropped || tree->frozen.empty() || tree->frozen.front().first_seq > up_to; });
}

void DbImpl::schedule_flush(const TreePtr& tree) {
  {
    MutexLock lock(state_mutex_);
    if (tree->flush_queued || tree->frozen.empty() || tree->frozen_rest || closing_ || !background_error_.is_ok()) return;
    tree->flush_queued = true;
  }
  submit(Priority::kHigh, [this, tree] { run_flush(tree); });
}

// For deadlines, the log or memory: what was frozen of the tree, or waits already.
void DbImpl::hurry_flush(Tree& tree) {
  {
    MutexLock lock(state_mutex_);
    if (tree.frozen.empty()) return;
    tree.flush_hurries = true;
    tree.frozen_rest = false;
  }
  const auto it = trees_.find(tree.id);
  if (it != trees_.end()) schedule_flush(it->second);
}

// A static schedule counts flushes and says for each what is merged: the merge of one is to be done before the next. Where none
// can run, where several memtables wait, or where somebody needs the flush, it goes ahead: the next merge brings the stack within
// its bound all the same.
bool DbImpl::awaits_merge(const TreePtr& tree) {
  const auto owes_merge = [&] {
    if (tree->view_owner == nullptr || !tree->policy->by_schedule() || compactions_paused_ > 0) return false;
    if (tree->flush_hurries || tree->frozen.size() > kMostAwaitMerge) return false;
    TreeShape shape = tree->view_owner->tables->version->shape(settings_.memtable_size, tree->settings.file_size, 0, 0,
                                                               [](FileNum) { return false; });
    leave_out_frozen(&shape);
    return !tree->policy->next(shape, {}).empty();
  };
  {
    MutexLock lock(state_mutex_);
    if (!owes_merge()) return false;
  }
  schedule_compactions(tree);
  MutexLock lock(state_mutex_);
  tree->flush_waits = tree->jobs.running() > 0 && owes_merge();
  return tree->flush_waits;
}

// `tree`, and others whose flush hurries, too, as long as all together have no more than one full memtable: small memtables of many
// trees, frozen for memory's sake, take one sync of the log and one edit.
std::vector<TreePtr> DbImpl::flush_group(const TreePtr& tree) {
  const auto bytes_of = [](const Tree& t) {
    std::uint64_t bytes = 0;
    for (const FrozenMemTable& f : t.frozen) bytes += f.memtable->memory_bytes();
    return bytes;
  };
  std::vector<TreePtr> group = {tree};
  MutexLock commit(commit_mutex_);
  MutexLock lock(state_mutex_);
  if (!tree->flush_hurries) return group;
  std::uint64_t bytes = bytes_of(*tree);
  for (const auto& [id, other] : trees_) {
    if (group.size() == kMaxFlushGroup || bytes >= settings_.memtable_size) break;
    if (other == tree || !other->flush_hurries || other->frozen.empty() || other->dropped) continue;
    const std::uint64_t more = bytes_of(*other);
    if (bytes + more > settings_.memtable_size) continue;
    bytes += more;
    group.push_back(other);
  }
  return group;
}

void DbImpl::run_flush(const TreePtr& tree) {
  Status status;
  std::vector<TreePtr> group = {tree};
  {
    MutexLock flushing(flush_mutex_);
    {
      MutexLock lock(state_mutex_);
      tree->flush_queued = false;
      if (tree->frozen.empty() && tree->view_owner != nullptr) return;  // flushed with the group of another tree
    }
    if (!tree->dropped && !closing_ && awaits_merge(tree)) return;
    if (!tree->dropped && !closing_) {
      group = flush_group(tree);
      status = flush_trees(group);
    }
  }
  if (!status.is_ok() && status.code() != Code::kAborted) background_failed(status, "flush");
  {
    MutexLock lock(state_mutex_);
    for (const TreePtr& flushed : group) {
      if (flushed->frozen.empty()) flushed->flush_hurries = false;
    }
    progress_.notify_all();
  }
  update_pressure();
  obsolete_files_.remove_queued();
  if (!status.is_ok()) return;  // heal() tries again
  for (const TreePtr& flushed : group) {
    schedule_flush(flushed);
    schedule_compactions(flushed);
  }
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
    MutexLock lock(state_mutex_);
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

// Readers and compactions go on while the tables are built: only the edit and its install need the manifest.
Status DbImpl::flush_memtables(const std::vector<TreePtr>& trees, std::size_t most, bool log_failed) {
  BuiltFlush built;
  std::vector<std::shared_ptr<const int>> working;
  {
    MutexLock lock(state_mutex_);
    for (const TreePtr& tree : trees) working.push_back(tree->work);
  }
  const Millis now = time_.stamped();
  Status status;
  for (const TreePtr& tree : trees) {
    status = build_tables(tree, most, now, &built);
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

// The frozen memtables of one tree, the `most` oldest, as tables, and what the manifest has to hear of them.
Status DbImpl::build_tables(const TreePtr& tree, std::size_t most, Millis now, BuiltFlush* built) {
  std::vector<FrozenMemTable> frozen;
  CompactionContext context;
  FilterNeeds needs;
  std::shared_ptr<const Policy> policy;
  std::shared_ptr<const TablesView> tables;
  {
    MutexLock lock(state_mutex_);
    if (tree->view_owner != nullptr) tables = tree->view_owner->tables;
    frozen.assign(tree->frozen.begin(), tree->frozen.begin() + static_cast<std::ptrdiff_t>(std::min(most, tree->frozen.size())));
    context.settings = table_settings(*tree);
    needs = filter_needs(*tree);
    policy = tree->policy;
  }
  if (frozen.empty() || tables == nullptr) return Status::ok();
  // Whoever was given one of these memtables has put its operation in once it is visible.
  published_.await(frozen.back().last_seq);
  context.now = now;
  context.stamp = tree->stamp;
  context.visible_seq = published_.visible_seq();
  context.last_seq = frozen.back().last_seq;
  std::vector<std::unique_ptr<InternalIterator>> iterators;
  std::vector<FlushInput> inputs;
  std::uint64_t entries = 0;
  for (auto it = frozen.rbegin(); it != frozen.rend(); ++it) {
    iterators.push_back(it->memtable->new_iterator());
    inputs.push_back({iterators.back().get(), it->memtable->range_tombstones(), it->memtable->records().snapshot()});
    entries += it->memtable->entries();
  }
  context.filters = filters_after_flush(*tables, entries, needs);
  TRY_ASSIGN(result, flush_to_run(inputs, *tables->version, context, compaction_env(tables, &tree->dropped, &built->opened)));
  result.edit.tree = tree->id;
  const double full = full_memtables(frozen);
  note_flush_size(*tree, full, *tables->version, &result);
  if (policy->by_schedule()) count_flush(*policy, full, *tables->version, context.settings.file_size, &result.edit);
  built->relies_on = std::max(built->relies_on, frozen.back().last_seq);
  built->edit.trees.push_back(std::move(result.edit));
  built->of.push_back({tree, frozen.size(), std::move(result.outputs)});
  flush_bytes_ += result.bytes_written;
  flushes_ += 1;
  tree->flush_rate.note(result.bytes_written, now);
  return Status::ok();
}

// How much of their room memtables have used, summed; what an empty one takes is not room. One that went beyond its room is a full
// one all the same, as policies count what arrives: memory comes in blocks, so a small memtable (4 KiB of 16) can be a third beyond
// with its last entry, and K-LSM would take two flushes for three.
double DbImpl::full_memtables(const std::vector<FrozenMemTable>& frozen) const {
  const double room = static_cast<double>(settings_.memtable_size) - static_cast<double>(empty_memtable_bytes_);
  if (room <= 0) return 0;
  double full = 0;
  for (const FrozenMemTable& f : frozen) {
    const double used = static_cast<double>(f.memtable->memory_bytes()) - static_cast<double>(empty_memtable_bytes_);
    // Far beyond its room is the memtable of a staged batch: it stands for as many as it would have filled.
    full += used >= 2 * room ? used / room : std::clamp(used / room, 0.0, 1.0);
  }
  return full;
}

// Capacities of levels follow what memtables flush to.
void DbImpl::note_flush_size(Tree& tree, double full, const Version& version, CompactionResult* flushed) {
  if (full <= 0) return;
  std::uint64_t written = 0;
  for (const FileMeta& table : flushed->outputs) written += table.data_bytes + table.metadata_bytes;
  flushed->edit.flush_share = tree.flush_size.add(full, written, settings_.memtable_size, version.flush_share);
}

// A schedule counts flushes of memtables that were full. A small one, which a deadline or a hand had flushed, is not counted:
// then the newest run, which the schedule has for the flush before, takes it in. Large deletes set the count back.
void DbImpl::count_flush(const Policy& policy, double full, const Version& version, std::uint64_t file_size,
                         TreeEdit* edit) const {
  TreeShape shape = version.shape(settings_.memtable_size, file_size, 0, 0, [](FileNum) { return false; });
  leave_out_frozen(&shape);
  const std::uint64_t before = policy.flushes(shape);
  edit->flushes = before + (full < kSmallFlush && before > 0 ? 0 : 1);
}

Status DbImpl::commit_flush(BuiltFlush* built, bool log_failed) {
  VersionEdit edit;
  DatabaseChanges changes;
  if (log_failed) changes = collect_database_changes(&edit);
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
    const Status installed = install(*of.tree, built->opened, of.memtables);
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

TreePtr DbImpl::tree_with(TreeId id) {
  MutexLock lock(commit_mutex_);
  if (const auto at = trees_.find(id); at != trees_.end()) return at->second;
  for (const TreePtr& tree : dropped_trees_) {
    if (tree->id == id) return tree;
  }
  return nullptr;
}

// What the edit takes out stays named in the manifest that is written to, until that is rolled. A commit may roll it first: then
// what was taken out before is in the old file alone, but this edit's files are in the new one's snapshot.
Status DbImpl::commit_edit(VersionEdit edit) {
  note_deadlines(&edit);
  std::map<TreeId, PurgeLedger::Superseded> superseded;
  for (const TreeEdit& change : edit.trees) {
    if (!change.drop && change.removed_files.empty()) continue;
    const TreePtr tree = tree_with(change.tree);
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

// The smallest seq that only the log has once `built` and `changes` are committed; everything before is in tables or in the
// manifest. A tree that was dropped counts for as long as a crash could take its dropping back.
SeqNum DbImpl::oldest_needed(const BuiltFlush* built, const DatabaseChanges& changes) {
  MutexLock commit(commit_mutex_);
  MutexLock lock(state_mutex_);
  SeqNum oldest = pipeline_.last_seq() + 1;
  const SeqNum committed = std::max(databases_seq_committed_, changes.seq);
  if (committed < databases_seq_) oldest = committed + 1;
  const auto look_at = [&](const TreePtr& tree) {
    std::size_t flushed = 0;
    if (built != nullptr) {
      for (const BuiltFlush::Of& of : built->of) flushed += of.tree == tree ? of.memtables : 0;
    }
    if (tree->frozen.size() > flushed) oldest = std::min(oldest, tree->frozen[flushed].first_seq);
    if (tree->active_first_seq != 0) oldest = std::min(oldest, tree->active_first_seq);
  };
  for (const auto& [id, tree] : trees_) look_at(tree);
  for (const TreePtr& tree : dropped_trees_) {
    if (std::find(changes.dropped.begin(), changes.dropped.end(), tree) == changes.dropped.end()) look_at(tree);
  }
  return oldest;
}

// With which segment the log begins once the edit is committed, and up to where it is only a second copy. Not beyond what is known
// to be synced: seqs that a power loss takes are given out again.
void DbImpl::note_log_needs(const BuiltFlush* built, const DatabaseChanges& changes, VersionEdit* edit) {
  const SeqNum oldest = oldest_needed(built, changes);
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
    MutexLock lock(state_mutex_);
    if (database_changes_queued_) return;
    database_changes_queued_ = true;
  }
  submit(Priority::kHigh, [this] {
    Status status;
    {
      MutexLock manifest(manifest_mutex_);
      {
        MutexLock lock(state_mutex_);
        database_changes_queued_ = false;
      }
      if (!closing_) status = commit_database_changes();
    }
    if (!status.is_ok()) background_failed(status, "database change");
    {
      MutexLock lock(state_mutex_);
      progress_.notify_all();
    }
    writes_.wake();
    obsolete_files_.remove_queued();
  });
}

Status DbImpl::commit_database_changes() {
  VersionEdit edit;
  DatabaseChanges changes = collect_database_changes(&edit);
  if (changes.seq == 0) return Status::ok();
  // Dropping unlinks: it must not be done for an operation that a crash could still take back.
  TRY(log_->wait_synced(changes.seq));
  note_log_needs(nullptr, changes, &edit);
  TRY(commit_edit(std::move(edit)));
  finish_database_changes(std::move(changes));
  remove_old_segments();
  return Status::ok();
}

// What the manifest does not know yet of trees and of who has which: creations first, so that later parts of the edit may use
// them.
DatabaseChanges DbImpl::collect_database_changes(VersionEdit* edit) {
  MutexLock lock(commit_mutex_);
  DatabaseChanges changes;
  if (databases_seq_ == databases_seq_committed_) return changes;
  changes.seq = databases_seq_;
  changes.dropped = dropped_trees_;
  for (const auto& [id, tree] : trees_) {
    if (versions_->tree(id) != nullptr) continue;
    TreeEdit create;
    create.tree = id;
    create.create = true;
    create.stamp = tree->stamp;
    edit->trees.push_back(std::move(create));
  }
  for (const TreePtr& tree : changes.dropped) {
    if (versions_->tree(tree->id) == nullptr) continue;
    TreeEdit drop;
    drop.tree = tree->id;
    drop.drop = true;
    edit->trees.push_back(std::move(drop));
  }
  for (DatabaseId d = 0; d < database_trees_.size(); ++d) {
    const TreeId now = database_trees_[d] == nullptr ? kNoTree : database_trees_[d]->id;
    auto it = versions_->databases().find(d);
    if (now != (it == versions_->databases().end() ? kNoTree : it->second)) edit->databases.emplace_back(d, now);
  }
  edit->databases_seq = edit->last_seq = changes.seq;
  return changes;
}

void DbImpl::finish_database_changes(DatabaseChanges changes) {
  if (changes.seq == 0) return;
  {
    MutexLock lock(commit_mutex_);
    databases_seq_committed_ = changes.seq;
    for (const TreePtr& tree : changes.dropped) std::erase(dropped_trees_, tree);
    pending_drops_ -= changes.dropped.size();
  }
  // A writer that was given a memtable of a dropped tree may still be putting its operation in, and readers may still be sent
  // there.
  published_.await_settled(changes.seq);
  for (TreePtr& tree : changes.dropped) retire_tree(std::move(tree));
}

// Its files go when the last reader lets go of them.
void DbImpl::retire_tree(TreePtr tree) {
  const Millis floor = floor_of(tree);
  std::shared_ptr<const TreeView> view;
  {
    MutexLock lock(state_mutex_);
    view = tree->view_owner;
  }
  for (const RunView& run : view->tables->runs) {
    for (const OpenTablePtr& table : run.tables()) {
      leave_table(*table, tree->id, floor, true);
      table->obsolete.store(true, std::memory_order_release);
      table->data->retire();
    }
  }
  {
    MutexLock lock(state_mutex_);
    ledger_.leave({"(outputs)", 0, {{tree->id, floor}}, tree->work});  // of jobs that have not noticed yet
    tree->work = nullptr;
    tree->frozen.clear();
    tree->view_owner = nullptr;
  }
  hole_puncher_.forget(tree->id);
  epoch_.retire([tree = std::move(tree), view = std::move(view)] {});
  epoch_.collect();
}

}  // namespace ebbtide
