// The write path: one short critical section gives a batch its place in the order of everything; the rest needs no lock.
//
// Invariants:
//   * Log order is seq order: enqueue() happens in the critical section.
//   * A frozen memtable is complete once visible_seq reaches its last seq: who was given a memtable in the critical section inserts
//     before it publishes, and publishing is in seq order.
//   * A view of (tree view, visible_seq) read in this order and re-checked has every operation up to its seq: a new memtable is
//     published before any operation is sequenced into it.
#include <thread>

#include "base/invariant.h"
#include "base/hash.h"
#include "db/db_impl.h"

namespace ebbtide {

// Where the operations of one batch go. A tree is looked up once per batch: a memtable is not switched in the middle of one.
struct DbImpl::Inserts {
  struct Target {
    TreeId tree;
    MemTable* memtable;
    StampMode stamp;
  };
  std::vector<Target> more;
  Target first{kNoTree, nullptr, StampMode::kWriteTime};
  SeqNum previous = 0;  // what visible_seq must be before this batch shows

  void add(const Target& t) {
    if (first.memtable == nullptr) {
      first = t;
    } else {
      more.push_back(t);
    }
  }
  [[nodiscard]] const Target* find(TreeId tree) const {
    if (first.tree == tree) return &first;
    for (const Target& t : more) {
      if (t.tree == tree) return &t;
    }
    return nullptr;
  }
};

Status DbImpl::commit(WriteBatch& batch) {
  if (batch.empty()) return Status::ok();
  TRY(admit(batch));
  Inserts inserts;
  {
    MutexLock lock(commit_mutex_);
    TRY(sequence(batch, &inserts));
  }
  SeqNum seq = batch.first_seq();
  std::size_t cursor = 0;
  WriteBatch::Op op;
  while (batch.next_op(&cursor, &op)) {
    const Inserts::Target* target = inserts.find(op.tree);
    if (target != nullptr) insert_operation(*target->memtable, op, seq, batch.time(), target->stamp);
    ++seq;
  }
  publish(inserts.previous, batch.last_seq());
  ThreadCounters& mine = counters_.mine();
  ThreadCounters::add(mine.commits, 1);
  ThreadCounters::add(mine.operations, batch.count());
  ThreadCounters::add(mine.user_bytes, batch.payload_bytes() - WriteBatch::kHeaderBytes);
  return Status::ok();
}

Status DbImpl::sequence(WriteBatch& batch, Inserts* inserts) {
  if (read_only_.load(std::memory_order_relaxed)) {
    MutexLock lock(state_mutex_);
    return Status::read_only(std::string(background_error_.message()));
  }
  const Millis time = std::max(time_.now(), last_time_);
  if (batch.relied_expiry() != 0 && time >= batch.relied_expiry()) return Status::retry();
  last_time_ = time;
  inserts->previous = next_seq_ - 1;

  // Trees first: creating one takes a seq of its own, before the batch's.
  std::size_t cursor = 0, before = 0;
  WriteBatch::Op op;
  DatabaseId last_database = ~DatabaseId{0};
  Tree* tree = nullptr;
  std::vector<DatabaseId> flushed;
  const bool simple = [&] {
    while (batch.next_op(&cursor, &op)) {
      if (op.kind == OpKind::kFlushDatabase || op.kind == OpKind::kSwapDatabases) return false;
      if (op.tree != last_database) {
        last_database = op.tree;
        if (last_database >= settings_.databases) return false;
        tree = tree_for_write(last_database, time);
      }
      batch.set_op_tree(before, tree->id);
      if (inserts->find(tree->id) == nullptr) {
        if (tree->active->memory_bytes() >= settings_.memtable_size) freeze(*tree);
        inserts->add({tree->id, tree->active, tree->stamp});
      }
      before = cursor;
    }
    return true;
  }();
  ASSERT_MSG(simple || before == 0 || op.kind == OpKind::kFlushDatabase || op.kind == OpKind::kSwapDatabases,
             "a batch names a database that there is not");

  if (!simple) {
    // Mapping changes take effect in the batch's order: go on from the first of them, operation by operation.
    do {
      if (op.kind == OpKind::kFlushDatabase) {
        const auto database = static_cast<DatabaseId>(op.lo);
        TreePtr old = database_trees_.at(database);
        TreePtr fresh = make_tree(versions_->new_tree(), database, tree_settings_[database].stamp);
        trees_[fresh->id] = fresh;
        batch.set_op_tree(before, fresh->id, old == nullptr ? kNoTree : old->id);
        map_database(database, fresh);
        if (old != nullptr) drop_tree(std::move(old));
      } else if (op.kind == OpKind::kSwapDatabases) {
        const auto a = static_cast<DatabaseId>(op.lo), b = static_cast<DatabaseId>(op.hi);
        TreePtr tree_a = database_trees_.at(a), tree_b = database_trees_.at(b);
        map_database(a, tree_b);
        map_database(b, tree_a);
      } else {
        tree = tree_for_write(op.tree, time);
        batch.set_op_tree(before, tree->id);
        if (inserts->find(tree->id) == nullptr) {
          if (tree->active->memory_bytes() >= settings_.memtable_size) freeze(*tree);
          inserts->add({tree->id, tree->active, tree->stamp});
        }
      }
      before = cursor;
    } while (batch.next_op(&cursor, &op));
  }

  batch.set_header(next_seq_, time, 0);
  next_seq_ += batch.count();
  if (!simple) {
    databases_seq_ = batch.last_seq();
    schedule_database_changes();
  }
  const auto touch = [&](TreeId id) {
    auto it = trees_.find(id);
    if (it == trees_.end()) return;  // flushed later in the same batch
    Tree& t = *it->second;
    if (t.active_first_seq == 0) t.active_first_seq = batch.first_seq();
    t.active_last_seq = batch.last_seq();
  };
  if (inserts->first.memtable != nullptr) touch(inserts->first.tree);
  for (const Inserts::Target& t : inserts->more) touch(t.tree);
  log_->enqueue(batch);
  return Status::ok();
}

Tree* DbImpl::tree_for_write(DatabaseId database, Millis time) {
  Tree* tree = databases_[database].load(std::memory_order_relaxed);
  if (tree != nullptr) return tree;
  TreePtr fresh = make_tree(versions_->new_tree(), database, tree_settings_[database].stamp);
  trees_[fresh->id] = fresh;
  WriteBatch create;
  create.create_tree(database, fresh->id);
  create.set_header(next_seq_, time, 0);
  ++next_seq_;
  databases_seq_ = create.last_seq();
  map_database(database, fresh);
  log_->enqueue(create);
  schedule_database_changes();
  return fresh.get();
}

TreePtr DbImpl::make_tree(TreeId id, DatabaseId database, StampMode stamp) {
  auto tree = std::make_shared<Tree>();
  tree->id = id;
  tree->stamp = stamp;
  tree->settings = tree_settings_[database];
  tree->settings.stamp = stamp;
  auto policy = make_policy(tree->settings.policy);
  ASSERT_MSG(policy.is_ok(), "settings were validated when they came in");
  tree->policy = std::move(policy).value();
  auto view = std::make_shared<TreeView>();
  view->tree = id;
  view->stamp = stamp;
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

void DbImpl::drop_tree(TreePtr tree) {
  tree->dropped = true;
  tree->jobs.abort_all();
  trees_.erase(tree->id);
  dropped_trees_.push_back(std::move(tree));
}

void DbImpl::map_database(DatabaseId database, TreePtr tree) {
  databases_[database].store(tree.get(), std::memory_order_release);
  database_trees_[database] = std::move(tree);
}

// The new memtable is published before anything is sequenced into it.
void DbImpl::freeze(Tree& tree) {
  if (tree.active_first_seq == 0) return;
  auto fresh = std::make_shared<MemTable>(settings_.memtable_size);
  {
    MutexLock lock(state_mutex_);
    auto view = std::make_shared<TreeView>(*tree.view_owner);
    tree.frozen.push_back({view->memtables.front(), tree.active_first_seq, tree.active_last_seq});
    view->memtables.insert(view->memtables.begin(), fresh);
    tree.active = fresh.get();
    tree.active_first_seq = tree.active_last_seq = 0;
    publish_view(tree, std::move(view));
  }
  auto it = trees_.find(tree.id);
  if (it != trees_.end()) schedule_flush(it->second);
}

void DbImpl::insert_operation(MemTable& memtable, const WriteBatch::Op& op, SeqNum seq, Millis time, StampMode stamp) {
  if (op.kind == OpKind::kRangeTombstone) {
    memtable.insert_range({std::string(op.key), std::string(op.end), seq, time});
    return;
  }
  Entry entry;
  entry.key = op.key;
  entry.seq = seq;
  if (op.kind == OpKind::kTombstone) {
    entry.kind = EntryKind::kTombstone;
    entry.delete_key = time;
  } else if (op.kind == OpKind::kPut || op.kind == OpKind::kHeader) {
    entry.kind = op.kind == OpKind::kPut ? EntryKind::kValue : EntryKind::kHeader;
    entry.expiry = op.expiry;
    entry.value = op.value;
    entry.shared = op.shared;
    switch (stamp) {
      case StampMode::kWriteTime: entry.delete_key = time; break;
      case StampMode::kExpireTime: entry.delete_key = op.expiry == 0 ? kNoStamp : op.expiry; break;
      case StampMode::kExplicit: entry.delete_key = op.stamp; break;
    }
    SharedValue copy;
    if (op.value.size() > kLargeValueBytes && op.shared == nullptr) {  // read back from the log
      copy = std::make_shared<const std::string>(op.value);
      entry.value = *copy;
      entry.shared = &copy;
      memtable.insert({op.key, hash_key(op.key)}, entry);
      return;
    }
  } else {
    return;
  }
  memtable.insert({op.key, hash_key(op.key)}, entry);
}

void DbImpl::publish(SeqNum previous, SeqNum last) {
  // In seq order. Whoever is before us is between its critical section and here, so the wait is short.
  for (int spins = 0; visible_seq_.load(std::memory_order_acquire) != previous;) {
    if (++spins > 64) std::this_thread::yield();
  }
  visible_seq_.store(last, std::memory_order_release);
}

}  // namespace ebbtide
