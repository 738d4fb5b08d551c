// Tests of databases that are emptied repeatedly: the cost, and the data that is kept for later.
#include "engine/db/harness.h"

namespace TEST_FILE {

using namespace ebbtide;

WriteBatch emptied(DatabaseId d) {
  WriteBatch batch;
  batch.flush_database(d);
  return batch;
}

PurgeTicket ticket(Harness& h) {
  SeqNum up_to = 0;
  return h.db->purge_ticket(&up_to);
}

TEST_CASE("database is empty: FLUSHDB makes no tree, also after a crash") {
  Harness h;
  h.open();
  for (DatabaseId d = 0; d < 16; ++d) {
    WriteBatch batch = emptied(d);
    h.write(batch);
  }
  CHECK(h.db->tree_info(3)->tree == kNoTree);
  h.put(3, "k", "v");
  WriteBatch batch = emptied(3);
  h.write(batch);
  const TreeId fresh = h.db->tree_info(3)->tree;
  for (int i = 0; i < 5; ++i) {
    batch = emptied(3);
    h.write(batch);
  }
  CHECK(h.db->tree_info(3)->tree == fresh);
  h.put(3, "after", "1");
  SECTION("manifest does not have the FLUSHDB") {}
  SECTION("manifest has the FLUSHDB") { h.settle(); }
  SECTION("manifest does not have the FLUSHDB, and a flush follows") { REQUIRE(h.db->flush(3).is_ok()); }
  h.crash(CrashMode::kEverything, 1);
  h.open();
  CHECK(h.db->tree_info(3)->tree == fresh);
  CHECK(h.get(3, "after") == "1");
  CHECK(h.get(3, "k") == "(absent)");
  h.settle();
  h.reopen();
  CHECK(h.get(3, "after") == "1");
  batch = emptied(3);
  h.write(batch);
  CHECK(h.get(3, "after") == "(absent)");
  CHECK(h.db->tree_info(3)->tree != fresh);
}

TEST_CASE("batch writes to databases and empties them: its operations take effect in their order") {
  Harness h;
  h.open();
  WriteBatch batch;
  batch.flush_database(0);
  batch.put(0, "a", "1");
  batch.flush_database(0);
  batch.flush_database(0);
  batch.put(0, "b", "2");
  h.write(batch);
  const auto expect = [&] {
    CHECK(h.get(0, "a") == "(absent)");
    CHECK(h.get(0, "b") == "2");
  };
  expect();
  h.crash(CrashMode::kEverything, 1);
  h.open();
  expect();
}

// Regression: each FLUSHDB left a tree with its memtable until the manifest was synced, so a pipeline of them took all memory.
TEST_CASE("databases are filled and emptied faster than manifest syncs: writers wait for these") {
  Harness h;
  h.open();
  TreeId last = 0;
  for (int i = 0; i < 1000; ++i) {
    h.put(0, "k", "v");
    WriteBatch batch = emptied(0);
    h.write(batch);
    last = h.db->tree_info(0)->tree;
  }
  CHECK(last >= 1000);
  CHECK(h.db->stats().dropped_trees <= 65);
  // A caller that must not wait gets kRetry.
  std::uint32_t wait_ms = 0;
  for (int i = 0; i < 100 && wait_ms == 0; ++i) {
    h.put(0, "k", "v");
    WriteBatch batch = emptied(0);
    (void)!h.db->try_commit(batch, false, &wait_ms).is_ok();
  }
  CHECK(wait_ms != 0);
  h.settle();
  WriteBatch batch = emptied(0);
  CHECK(h.db->try_commit(batch, true, &wait_ms).is_ok());
  CHECK(h.db->stats().dropped_trees <= 1);
}

TEST_CASE("batch has too many FLUSHDBs: it is refused") {
  Harness h;
  h.open();
  WriteBatch batch;
  for (int i = 0; i < 300; ++i) {
    batch.put(0, "k", "v");
    batch.flush_database(0);
  }
  CHECK(h.db->commit(batch).code() == Code::kInvalidArgument);
  CHECK(h.db->visible_seq() == 0);
}

// Regression: the tree that the batch needed was logged before the batch, with its number after the swap. The replay gave this
// number the new tree, and lost the tree that the swap moves there.
TEST_CASE("batch swaps databases and writes into one that had no tree: after a crash, all changes of the batch are there") {
  Harness h;
  h.open();
  h.put(0, "zero", "v");
  h.put(2, "two", "v");
  h.settle();
  WriteBatch batch;
  batch.swap_databases(0, 1);
  batch.put(0, "new", "w");
  batch.swap_databases(2, 3);
  batch.swap_databases(3, 4);
  batch.swap_databases(0, 5);
  batch.flush_database(2);
  batch.put(2, "later", "x");
  batch.put(3, "last", "y");
  h.write(batch);
  const auto expect = [&] {
    CHECK(h.get(1, "zero") == "v");
    CHECK(h.get(5, "new") == "w");
    CHECK(h.get(4, "two") == "v");
    CHECK(h.get(2, "later") == "x");
    CHECK(h.get(3, "last") == "y");
    CHECK(h.get(0, "zero") == "(absent)");
    CHECK(h.get(0, "new") == "(absent)");
    CHECK(h.get(2, "two") == "(absent)");
  };
  expect();
  SECTION("manifest does not have the swaps") {}
  SECTION("manifest has the swaps") { h.settle(); }
  h.crash(CrashMode::kEverything, 1);
  h.open();
  expect();
  h.settle();
  h.reopen();
  expect();
}

TEST_CASE("thousands of trees are dropped: the manifest is rolled long before a deadline") {
  Harness h;  // the delete deadline is a day
  h.open();
  const auto manifests = [&h] {
    std::vector<std::string> found;
    for (const std::string& path : h.files->tree()) {
      if (path.find("MANIFEST-") != std::string::npos) found.push_back(path);
    }
    return found;
  };
  const auto first = manifests();
  REQUIRE(first.size() == 1);
  const PurgeTicket before = ticket(h);
  h.clock.advance(1);
  for (int round = 0; round < 2100 && manifests() == first; ++round) {
    h.put(1, "k", "v");
    WriteBatch batch = emptied(1);
    h.write(batch);
    h.settle();
    if (round % 100 == 99) h.advance(2000), h.settle();
  }
  CHECK(manifests() != first);
  // The deletes are still pending, since the log has their data.
  h.put(1, "last", "v");
  WriteBatch batch = emptied(1);
  h.write(batch);
  CHECK_FALSE(h.db->purge_status(ticket(h))->done);
  CHECK(h.db->purge_status(before)->done);
}

TEST_CASE("database is emptied during a flush of another database: its log segment stays until the manifest has the FLUSHDB") {
  Settings settings = Harness::small();
  settings.tree.memtable_size = 1 << 20;
  settings.wal_segment_size = 64 << 10;
  Harness h(settings);
  h.open();
  for (const DatabaseId d : {0u, 1u}) h.put(d, "k", "v");
  REQUIRE(h.db->flush(1).is_ok());
  h.settle();
  h.put(0, "more", "v");
  bool emptied = false;
  h.watch->on_call = [&](const FileCall& call) {
    if (emptied || call.op != FileOp::kCreate || !call.path.ends_with(".data")) return;
    emptied = true;
    WriteBatch batch;
    batch.put(1, "large", std::string(100 << 10, 'l'));  // the segment ends with this batch
    batch.flush_database(1);
    h.write(batch);
  };
  REQUIRE(h.db->flush(0).is_ok());
  h.watch->on_call = nullptr;
  REQUIRE(emptied);
  h.put(0, "behind", "v");
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  h.crash(CrashMode::kEverything, 1);
  h.open();
  CHECK(*h.db->count(1, {}) == 0);
  CHECK(*h.db->count(0, {}) == 3);
}

}  // namespace TEST_FILE
