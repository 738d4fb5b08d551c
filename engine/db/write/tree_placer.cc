#include "db/write/tree_placer.h"

#include <span>

#include "base/invariant.h"

namespace ebbtide {

TreeId TreePlacer::place(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts) {
  ASSERT_MSG(trees_.has_number(op.tree), "a batch names a database that does not exist");
  Tree* tree = tree_for_write(op.tree, time, inserts);
  batch.set_op_tree(at, tree->id);
  if (op.kind == OpKind::kSecondaryDelete) {
    tree->recorded->store(true, std::memory_order_relaxed);  // set before the record is visible
    ThreadCounters::add(tree->lookups->mine().range_deletes, 1);
  }
  if (inserts->find(tree->id) == nullptr) {
    if (TreeRegistry::is_full(*tree)) trees_.freeze(*tree);
    inserts->add({tree->id, tree->active, tree->stamp});
  }
  return tree->id;
}

void TreePlacer::change_mapping(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts,
                                LogNotes* notes) {
  const auto a = static_cast<DatabaseId>(op.lo), b = static_cast<DatabaseId>(op.hi);
  ASSERT_MSG(op.kind == OpKind::kFlushDatabase ? trees_.has_number(a) : a < trees_.databases() && b < trees_.databases(),
             "a batch names a database that does not exist");
  if (op.kind == OpKind::kFlushDatabase) return flush_database(batch, at, a, time, inserts, notes);
  trees_.swap(a, b);
  inserts->swaps.emplace_back(a, b);
  inserts->remapped.emplace_back(a, trees_.mapped(a).get());
  inserts->remapped.emplace_back(b, trees_.mapped(b).get());
}

void TreePlacer::flush_database(WriteBatch& batch, std::size_t at, DatabaseId database, Millis time, Inserts* inserts,
                                LogNotes* notes) {
  TreePtr old = trees_.mapped(database);
  const StampMode stamp = trees_.settings_of(database).stamp;
  if (keeps_tree(old.get(), database, *inserts)) {
    const TreeId kept = old == nullptr ? kNoTree : old->id;
    batch.set_flush_trees(at, kept, stamp, kept);
    return;
  }
  TreePtr fresh = trees_.make(env_.new_tree(), database, stamp);
  batch.set_flush_trees(at, fresh->id, fresh->stamp, old->id);
  inserts->remapped.emplace_back(database, fresh.get());
  trees_.map(database, std::move(fresh));
  add_note(notes, {old->id, time, 0});
  trees_.drop(std::move(old), time);
}

// True if FLUSHDB need not replace the tree, since it is empty: each new tree would cost memory and a record in the manifest.
bool TreePlacer::keeps_tree(const Tree* tree, DatabaseId database, const Inserts& inserts) {
  if (tree == nullptr) return true;
  if (inserts.find(tree->id) != nullptr || tree->stamp != trees_.settings_of(database).stamp) return false;
  return trees_.is_empty(*tree);
}

Tree* TreePlacer::make_first_tree(DatabaseId database, Millis time, Inserts* inserts) {
  TreePtr fresh = trees_.make(env_.new_tree(), database, trees_.settings_of(database).stamp);
  WriteBatch create;
  // In the log, this operation comes before the batch and its swaps. So it names the number that the database had before the
  // swaps.
  create.create_tree(inserts->before_swaps(database), fresh->id, fresh->stamp);
  env_.sequence(create, fresh->id, time);
  trees_.note_mapping(create.last_seq());
  inserts->remapped.emplace_back(database, fresh.get());
  Tree* tree = fresh.get();
  trees_.map(database, std::move(fresh));
  env_.mapping_changed();
  return tree;
}

}  // namespace ebbtide
