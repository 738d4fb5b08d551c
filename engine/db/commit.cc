// Commits, and which tree each database has as the next batch sees it. write/commit_pipeline.h has the order of things; CommitEnv is
// what it needs of the database.
#include <tuple>
#include <utility>

#include "base/invariant.h"
#include "db/db_impl.h"

namespace ebbtide {
namespace {
constexpr std::size_t kMaxMemTableRecords = 4096;

/// What decides about the filters of files that are there.
auto filter_settings(const TreeSettings& s) {
  return std::tuple(s.filter_allocation, s.filter_bits_per_key, s.filter_memory, s.filter_lookups);
}
}  // namespace

Status CommitEnv::writable() { return db->health_.read_only() ? db->health_.write_status() : Status::ok(); }
Millis CommitEnv::now() { return db->time_.now(); }
Millis CommitEnv::stamped(Millis now) { return db->time_.stamped(now); }
TreeId CommitEnv::place(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts) {
  return db->place_operation(batch, at, op, time, inserts);
}
void CommitEnv::change_mapping(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts,
                               LogNotes* notes) {
  db->change_mapping(batch, at, op, time, inserts, notes);
}
void CommitEnv::mapping_changed(SeqNum last) {
  db->databases_seq_ = last;
  db->schedule_database_changes();
}
void CommitEnv::sequenced(TreeId tree, SeqNum first, SeqNum last) { db->mark_active(tree, first, last); }
void CommitEnv::log(const WriteBatch& batch, std::span<const LogNote> notes) { db->log_->enqueue(batch, notes); }
void CommitEnv::insert(const Inserts::Target& target, const WriteBatch::Op& op, SeqNum seq, Millis time) {
  insert_operation(*target.memtable, op, seq, time, target.stamp);
}

Status DbImpl::refuse(const WriteBatch& batch) {
  TRY(check_batch(batch, settings_.databases));
  if (log_->failed()) return Status::read_only(log_->status().to_string());
  if (health_.read_only()) TRY(health_.write_status());
  return writes_.refuse(batch, disk_.full(log_->bytes_written()));
}

Status DbImpl::commit(WriteBatch& batch) {
  if (batch.empty()) return Status::ok();
  TRY(refuse(batch));
  TRY(writes_.await(batch));
  return commit_admitted(batch, true);
}

Status DbImpl::try_commit(WriteBatch& batch, bool waited, std::uint32_t* wait_ms) {
  *wait_ms = 0;
  if (batch.empty()) return Status::ok();
  TRY(refuse(batch));
  *wait_ms = writes_.delay_ms(batch, waited);
  if (*wait_ms != 0) return Status::busy("writes wait for flushes and compactions");
  return commit_admitted(batch, false);
}

Status DbImpl::commit_admitted(WriteBatch& batch, bool may_wait) {
  const bool large_values =
      batch.payload_bytes() >= StagedBatch::kLeastBytes && batch.flushes() == 0;  // which go to the log in pieces
  if (large_values || StagedBatch::pays_for(batch)) [[unlikely]] {
    auto entries = stage_entries(batch, nullptr);
    if (entries.is_ok()) return commit_at_once(batch, &*entries, may_wait);
    if (entries.status().code() != Code::kUnsupported) return entries.status();
  }
  TRY(pipeline_.commit(batch));
  if (batch.payload_bytes() > kLargeValueBytes) [[unlikely]]
    memory_->lower_limit(batch.payload_bytes() - batch.shared_bytes());
  count_commit(batch);
  return Status::ok();
}

void DbImpl::count_commit(const WriteBatch& batch) {
  ThreadCounters& mine = reads_.counters.mine();
  ThreadCounters::add(mine.commits, 1);
  ThreadCounters::add(mine.operations, batch.count());
  if (batch.secondary_deletes() != 0) ThreadCounters::add(mine.secondary_deletes, batch.secondary_deletes());
  ThreadCounters::add(mine.user_bytes, batch.payload_bytes() - WriteBatch::kHeaderBytes);
}

// Makes a tree if the operation's database has none. The tree's memtable is among the inserts afterwards.
TreeId DbImpl::place_operation(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts) {
  ASSERT_MSG(op.tree < settings_.databases, "a batch names a database that there is not");
  Tree* tree = tree_for_write(op.tree, time, inserts);
  batch.set_op_tree(at, tree->id);
  if (op.kind == OpKind::kSecondaryDelete) {
    tree->recorded->store(true, std::memory_order_relaxed);  // before it is visible
    ThreadCounters::add(tree->lookups->mine().range_deletes, 1);
  }
  if (inserts->find(tree->id) == nullptr) {
    if (is_full(*tree->active)) freeze(*tree);
    inserts->add({tree->id, tree->active, tree->stamp});
  }
  return tree->id;
}

// A lookup among records costs time in their number, not in their bytes: so their number has a limit of its own.
bool DbImpl::is_full(const MemTable& memtable) const {
  return memtable.memory_bytes() >= settings_.memtable_size || memtable.records().size() >= kMaxMemTableRecords;
}

void DbImpl::change_mapping(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts,
                            LogNotes* notes) {
  const auto a = static_cast<DatabaseId>(op.lo), b = static_cast<DatabaseId>(op.hi);
  ASSERT_MSG(a < settings_.databases && (op.kind == OpKind::kFlushDatabase || b < settings_.databases),
             "a batch names a database that there is not");
  if (op.kind == OpKind::kFlushDatabase) {
    TreePtr old = database_trees_[a];
    if (keeps_tree(old.get(), a, *inserts)) {
      const TreeId kept = old == nullptr ? kNoTree : old->id;
      batch.set_flush_trees(at, kept, tree_settings_[a].stamp, kept);
      return;
    }
    TreePtr fresh = make_tree(versions_->new_tree(), a, tree_settings_[a].stamp);
    trees_[fresh->id] = fresh;
    batch.set_flush_trees(at, fresh->id, fresh->stamp, old == nullptr ? kNoTree : old->id);
    inserts->remapped.emplace_back(a, fresh.get());
    database_trees_[a] = std::move(fresh);
    if (old != nullptr) {
      add_note(notes, {old->id, time, 0});
      drop_tree(std::move(old), time);
    }
  } else {
    std::swap(database_trees_[a], database_trees_[b]);
    inserts->swaps.emplace_back(a, b);
    const bool other_filters = filter_settings(tree_settings_[a]) != filter_settings(tree_settings_[b]);
    for (const DatabaseId d : {a, b}) {
      if (database_trees_[d] == nullptr) continue;
      adopt_settings(*database_trees_[d], d);
      if (other_filters) schedule_filter_fit(database_trees_[d]);
    }
    inserts->remapped.emplace_back(a, database_trees_[a].get());
    inserts->remapped.emplace_back(b, database_trees_[b].get());
  }
}

// An empty database keeps its tree: a new one would cost memory and a line in the manifest each time.
bool DbImpl::keeps_tree(const Tree* tree, DatabaseId database, const Inserts& inserts) {
  if (tree == nullptr) return true;
  if (tree->active_first_seq != 0 || inserts.find(tree->id) != nullptr || tree->stamp != tree_settings_[database].stamp) {
    return false;
  }
  MutexLock lock(state_mutex_);
  return tree->frozen.empty() && tree->view_owner->tables->runs.empty();
}

void DbImpl::mark_active(TreeId id, SeqNum first, SeqNum last) {
  auto it = trees_.find(id);
  if (it == trees_.end()) return;  // flushed later in the same batch
  Tree& tree = *it->second;
  if (tree.active_first_seq == 0) tree.active_first_seq = first;
  tree.active_last_seq = last;
}

Tree* DbImpl::tree_for_write(DatabaseId database, Millis time, Inserts* inserts) {
  if (Tree* tree = database_trees_[database].get(); tree != nullptr) return tree;
  TreePtr fresh = make_tree(versions_->new_tree(), database, tree_settings_[database].stamp);
  trees_[fresh->id] = fresh;
  WriteBatch create;
  // In the log this comes before the batch, whose swaps are still to move the tree to where it is now.
  create.create_tree(inserts->before_swaps(database), fresh->id, fresh->stamp);
  pipeline_.assign(create, time);
  databases_seq_ = create.last_seq();
  inserts->remapped.emplace_back(database, fresh.get());
  database_trees_[database] = fresh;
  const LogNote note{fresh->id, 0, 0};
  log_->enqueue(create, std::span(&note, 1));
  schedule_database_changes();
  return fresh.get();
}

TreePtr DbImpl::make_tree(TreeId id, DatabaseId database, StampMode stamp) {
  auto tree = std::make_shared<Tree>(clock_);
  tree->id = id;
  tree->stamp = stamp;
  tree->deadlines = DeadlineRule(tree_settings_[database].delete_deadline);
  adopt_settings(*tree, database);
  auto view = std::make_shared<TreeView>();
  view->tree = id;
  view->stamp = stamp;
  view->recorded = tree->recorded;
  view->lookups = tree->lookups;
  view->memtables.push_back(std::make_shared<MemTable>(settings_.memtable_size));
  auto version = std::make_shared<Version>();
  version->tree = id;
  version->stamp = stamp;
  auto tables = std::make_shared<TablesView>();
  tables->version = std::move(version);
  view->tables = std::move(tables);
  tree->active = view->memtables.front().get();
  MutexLock lock(state_mutex_);
  publish_view(*tree, std::move(view));
  return tree;
}

// Settings belong to the number of a database. A tree that SWAPDB moves to another number takes that number's settings, as it would at
// the next start. Only the stamp mode stays with the tree. Why: engine/docs/decisions/0026-settings-go-by-number.md.
void DbImpl::adopt_settings(Tree& tree, DatabaseId database) {
  auto policy = make_policy(tree_settings_[database].policy);
  ASSERT_MSG(policy.is_ok(), "settings were validated when they came in");
  MutexLock lock(state_mutex_);
  const PolicySettings &old = tree.settings.policy, &now = tree_settings_[database].policy;
  const bool changed = tree.policy != nullptr && (old.name != now.name || old.parameters != now.parameters);
  tree.settings = tree_settings_[database];
  tree.settings.stamp = tree.stamp;
  tree.policy = std::move(policy).value();
  if (changed && tree.view_owner != nullptr) {
    tree.inherited_runs = std::max(0, tree.view_owner->tables->newest_level_runs - tree.policy->slowdown_runs());
  }
  if (!opened_) return;  // settle_deadlines() will
  const DeadlineRule before = tree.deadlines;
  tree.deadlines.change(time_.stamped(), tree.settings.delete_deadline);
  if (tree.deadlines != before) deadlines_changed_ = true;
}

void DbImpl::change_settings(DatabaseId database, const TreeSettings& settings) {
  const TreeSettings before = std::exchange(tree_settings_[database], settings);
  const TreePtr& tree = database_trees_[database];
  if (tree == nullptr) return;
  adopt_settings(*tree, database);
  if (filter_settings(before) != filter_settings(settings)) schedule_filter_fit(tree);
}

void DbImpl::drop_tree(TreePtr tree, Millis time) {
  tree->dropped_at = time;
  tree->dropped = true;
  tree->jobs.abort_all();
  {
    MutexLock lock(state_mutex_);
    dropped_deadlines_[tree->id] = tree->deadlines;
  }
  trees_.erase(tree->id);
  dropped_trees_.push_back(std::move(tree));
  pending_drops_ += 1;
}

void DbImpl::map_database(DatabaseId database, TreePtr tree) {
  published_.map(database, tree.get());
  database_trees_[database] = std::move(tree);
}

// The new memtable is published before anything is sequenced into it.
void DbImpl::freeze(Tree& tree) {
  if (tree.dropped) return;  // it may have no view any more
  {
    MutexLock lock(state_mutex_);
    tree.frozen_rest = false;
    if (tree.active_first_seq != 0) {
      auto view = std::make_shared<TreeView>(*tree.view_owner);
      freeze_active(tree, view.get());
      publish_view(tree, std::move(view));
    }
  }
  auto it = trees_.find(tree.id);
  if (it != trees_.end()) flush_scheduler_.schedule(it->second);
}

void DbImpl::freeze_active(Tree& tree, TreeView* view) {
  tree.frozen.push_back({view->memtables.front(), tree.active_first_seq, tree.active_last_seq});
  view->memtables.insert(view->memtables.begin(), std::make_shared<MemTable>(settings_.memtable_size));
  tree.active = view->memtables.front().get();
  tree.active_first_seq = tree.active_last_seq = 0;
}

}  // namespace ebbtide
