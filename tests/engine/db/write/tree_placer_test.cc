// Tests that each operation of a batch gets the tree that its database has at that point.
#include <catch2/catch.hpp>

#include <utility>
#include <vector>

#include "base/clock.h"
#include "db/write/tree_placer.h"
#include "engine/db/trees/registry_env.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

constexpr Millis kTime = 1000;

struct Bed {
  SimulatedClock clock;
  Epoch epoch;
  SeqNum next_seq = 1;
  TreeId next_tree = 10;
  std::vector<std::pair<DatabaseId, TreeId>> created;  // as in the log
  int mappings = 0, flushes = 0;
  TreeRegistry trees{{.clock = &clock,
                      .epoch = &epoch,
                      .now = [] { return kTime; },
                      .last_seq = [this] { return next_seq - 1; },
                      .frozen = [this](const TreePtr&) { ++flushes; },
                      .filters_changed = [](const TreePtr&) {}},
                     databases_of(4, 4096)};
  TreePlacer placer{{.trees = &trees,
                     .new_tree = [this] { return next_tree++; },
                     .sequence =
                         [this](WriteBatch& creation, TreeId tree, Millis time) {
                           std::size_t cursor = 0;
                           WriteBatch::Op op;
                           REQUIRE(creation.next_op(&cursor, &op));
                           CHECK((op.kind == OpKind::kCreateTree && op.tree == tree));
                           created.emplace_back(static_cast<DatabaseId>(op.lo), tree);
                           creation.set_header(next_seq++, time, 0);
                         },
                     .mapping_changed = [this] { ++mappings; }}};
  Inserts inserts;
  LogNotes notes;

  /// Places every operation. Returns their trees; kNoTree for changes of the mapping.
  std::vector<TreeId> run(WriteBatch& batch) {
    MutexLock lock(trees.commit_mutex);
    inserts = {};
    notes.clear();
    std::vector<TreeId> out;
    std::size_t cursor = 0, at = 0;
    for (WriteBatch::Op op; batch.next_op(&cursor, &op); at = cursor) {
      if (op.kind == OpKind::kFlushDatabase || op.kind == OpKind::kSwapDatabases) {
        placer.change_mapping(batch, at, op, kTime, &inserts, &notes);
        out.push_back(kNoTree);
      } else {
        out.push_back(placer.place(batch, at, op, kTime, &inserts));
      }
    }
    const SeqNum first = next_seq;
    next_seq += batch.count();
    inserts.each_target([&](const Inserts::Target& t)
                            NO_THREAD_SAFETY_ANALYSIS { trees.mark_active(t.tree, first, next_seq - 1); });
    return out;
  }
};

TEST_CASE("database gets its first write: it gets a tree, which is logged before the batch") {
  Bed bed;
  WriteBatch batch;
  batch.put(2, "a", "1");
  batch.put(2, "b", "2");
  batch.put(0, "c", "3");
  CHECK(bed.run(batch) == std::vector<TreeId>{10, 10, 11});
  CHECK(bed.created == std::vector<std::pair<DatabaseId, TreeId>>{{2, 10}, {0, 11}});
  CHECK(bed.mappings == 2);
  CHECK((bed.inserts.remapped.size() == 2 && bed.inserts.find(10) != nullptr && bed.inserts.find(11) != nullptr));
  WriteBatch next;
  next.put(2, "d", "4");
  CHECK(bed.run(next) == std::vector<TreeId>{10});
  CHECK((bed.inserts.remapped.empty() && bed.mappings == 2));
}

TEST_CASE("memtable is full: it is frozen before the next batch's first operation on its tree") {
  Bed bed;
  WriteBatch batch;
  batch.put(0, "a", "1");
  bed.run(batch);
  Tree& tree = *bed.trees.tree_of(0);
  MemTable* full = tree.active;
  for (SeqNum seq = 1; !TreeRegistry::is_full(tree); ++seq) full->insert_range({"a" + std::to_string(seq), "b", seq, kTime});
  WriteBatch next;
  next.put(0, "b", "2");
  bed.run(next);
  CHECK((bed.flushes == 1 && tree.active != full && bed.inserts.find(tree.id)->memtable == tree.active));
}

TEST_CASE("batch has a FLUSHDB: the old tree is dropped, and later operations go to a new, empty tree") {
  Bed bed;
  WriteBatch batch;
  batch.put(0, "a", "1");
  bed.run(batch);
  const TreePtr old = bed.trees.tree_of(0);
  WriteBatch flush;
  flush.flush_database(0);
  flush.put(0, "b", "2");
  CHECK(bed.run(flush) == std::vector<TreeId>{kNoTree, 11});
  CHECK((old->dropped && old->dropped_at == kTime && bed.trees.tree_of(0)->id == 11));
  REQUIRE(bed.notes.size() == 1);
  CHECK((bed.notes[0].tree == old->id && bed.notes[0].oldest_delete == kTime));
  REQUIRE(bed.inserts.remapped.size() == 1);
  CHECK(bed.inserts.remapped[0].second == bed.trees.tree_of(0).get());
}

TEST_CASE("database is empty: FLUSHDB makes no new tree, unless the batch itself has written to the database") {
  Bed bed;
  WriteBatch none;
  none.flush_database(3);
  bed.run(none);
  CHECK((bed.trees.tree_of(3) == nullptr && bed.created.empty()));

  WriteBatch twice;
  twice.put(0, "a", "1");
  twice.flush_database(0);
  twice.flush_database(0);
  bed.run(twice);
  CHECK(bed.trees.tree_of(0)->id == 11);
  CHECK(bed.trees.pending_drops() == 1);
}

TEST_CASE("batch has a SWAPDB and the first write of a database: the new tree is logged under its number before the swap") {
  Bed bed;
  WriteBatch batch;
  batch.put(0, "a", "1");
  bed.run(batch);
  const TreePtr tree = bed.trees.tree_of(0);
  WriteBatch swap;
  swap.swap_databases(0, 1);
  swap.put(0, "b", "2");
  swap.put(1, "c", "3");
  CHECK(bed.run(swap) == std::vector<TreeId>{kNoTree, 11, tree->id});
  CHECK(bed.trees.tree_of(1) == tree);
  CHECK(bed.created.back() == std::pair<DatabaseId, TreeId>{1, 11});
}

TEST_CASE("delete by stamp is placed: its tree is marked as having deletes by stamp before the delete is visible") {
  Bed bed;
  WriteBatch batch;
  batch.put(0, "a", "1");
  bed.run(batch);
  CHECK_FALSE(bed.trees.tree_of(0)->recorded->load());
  WriteBatch erase;
  erase.delete_stamps(0, 1, 5);
  bed.run(erase);
  CHECK(bed.trees.tree_of(0)->recorded->load());
}

}  // namespace TEST_FILE
