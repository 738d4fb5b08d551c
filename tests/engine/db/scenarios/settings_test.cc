// Tests of a tree's settings: the stamp mode is that of its creation, and all others are those of its database number.
#include "deletes/tile_size.h"
#include "engine/db/harness.h"

namespace TEST_FILE {

using namespace ebbtide;

Settings with_stamp(StampMode mode) {
  Settings s = Harness::small();
  s.tree.stamp = mode;
  return s;
}

SeqNum put_stamped(Harness& h, DatabaseId d, Bytes key, DeleteKey stamp) {
  WriteBatch batch;
  batch.put(d, key, "v", {stamp, 0});
  return h.write(batch);
}

SeqNum flush_database(Harness& h, DatabaseId d) {
  WriteBatch batch;
  batch.flush_database(d);
  return h.write(batch);
}

TEST_CASE("configured stamp mode changes: a tree keeps its mode from creation, even if only the log has the tree") {
  Harness h(with_stamp(StampMode::kExplicit));
  h.open();
  put_stamped(h, 0, "k", 77);
  put_stamped(h, 1, "k", 1);
  flush_database(h, 1);
  put_stamped(h, 1, "k", 78);
  SECTION("manifest does not have the tree") {}
  SECTION("manifest has the tree") { h.settle(); }
  SECTION("tree has values in tables") {
    REQUIRE(h.db->flush(0).is_ok());
    REQUIRE(h.db->flush(1).is_ok());
  }
  h.settings.tree.stamp = StampMode::kWriteTime;
  h.crash(CrashMode::kEverything, 1);
  h.open();
  CHECK(h.stamp(0, "k") == 77);
  CHECK(h.stamp(1, "k") == 78);
  CHECK(h.events.heard("database 0 was made with the stamp mode explicit"));
  put_stamped(h, 0, "later", 79);
  CHECK(h.stamp(0, "later") == 79);
  // FLUSHDB gives the database the configured mode, permanently.
  flush_database(h, 0);
  put_stamped(h, 0, "k", 80);
  CHECK(h.stamp(0, "k") == h.db->now());
  h.settings.tree.stamp = StampMode::kExplicit;
  const Millis written = h.db->now();
  h.crash(CrashMode::kEverything, 1);
  h.open();
  CHECK(h.stamp(0, "k") == written);
}

TEST_CASE("trees have the configured stamp mode at open: no warning is logged") {
  Harness h(with_stamp(StampMode::kExplicit));
  h.open();
  put_stamped(h, 0, "k", 77);
  h.reopen();
  CHECK(h.events.warnings.empty());
}

TEST_CASE("databases are swapped: each number keeps its settings, which apply to the swapped trees at once") {
  Settings settings = Harness::small();
  settings.overrides[1] = settings.tree;
  settings.overrides[1].policy.name = "leveling";
  settings.overrides[1].stamp = StampMode::kExplicit;
  Harness h(settings);
  h.open();
  h.put(0, "zero", "v");
  put_stamped(h, 1, "one", 77);
  h.settle();
  WriteBatch batch;
  batch.swap_databases(0, 1);
  h.write(batch);
  const auto expect = [&] {
    CHECK(h.get(0, "one") == "v");
    CHECK(h.db->tree_info(0)->policy == "one_leveling");
    CHECK(h.db->tree_info(1)->policy == "leveling");
    CHECK(h.stamp(0, "one") == 77);  // the mode moved with the tree
  };
  expect();
  SECTION("killed before the manifest has the swap") {
    h.crash(CrashMode::kEverything, 1);
    h.open();
  }
  SECTION("after a restart") {
    h.settle();
    h.reopen();
  }
  expect();
  put_stamped(h, 0, "more", 78);
  CHECK(h.stamp(0, "more") == 78);
}

// engine/docs/decisions/0026-settings-go-by-number.md has the reason.
TEST_CASE("trees are swapped: each gets the other number's tile size and deadline, and deletes keep their due times") {
  constexpr Millis kShort = 10'000, kLong = 3'600'000;
  const std::string marker = "<deleted value>";
  Settings settings = Harness::small();
  settings.tree.delete_deadline = kShort;
  settings.overrides[1] = settings.tree;
  settings.overrides[1].pages_per_tile = 8;
  settings.overrides[1].delete_deadline = kLong;
  Harness h(settings);
  h.open();
  // "early" is deleted under the short deadline and swapped to the long deadline; "late" is the opposite.
  for (const DatabaseId d : {0u, 1u}) {
    h.put(d, "k", (d == 0 ? "early " : "late ") + marker);
    for (int i = 0; i < 50; ++i) h.put(d, "stays" + std::to_string(i), "v");
    REQUIRE(h.db->flush(d).is_ok());
  }
  for (const DatabaseId d : {0u, 1u}) h.del(d, "k");
  const auto expect = [&] {
    CHECK(h.db->tree_info(0)->pages_per_tile == 1);
    CHECK(h.db->tree_info(0)->delete_deadline == kShort);
    CHECK(h.db->tree_info(1)->pages_per_tile == 8);
    CHECK(h.db->tree_info(1)->delete_deadline == kLong);
  };
  expect();
  WriteBatch batch;
  batch.swap_databases(0, 1);
  h.write(batch);
  expect();
  SECTION("in the running database") {}
  SECTION("killed before the manifest has the swap") {
    h.crash(CrashMode::kEverything, 1);
    h.open();
  }
  SECTION("after a restart") {
    h.settle();
    h.reopen();
  }
  expect();
  const auto left = [&](const char* which) { return h.table_bytes().find(which + marker) != std::string::npos; };
  REQUIRE(left("early "));
  REQUIRE(left("late "));
  // The time is engine time, which runs at half speed for a while after a kill.
  for (const Millis end = h.db->now() + kShort; h.db->now() < end;) {
    h.advance(100);
    h.settle();
    h.db->write_log();  // does the work of the log's thread, which ends segments
  }
  CHECK_FALSE(left("early "));
  CHECK_FALSE(left("late "));
  CHECK(h.db->stats().deadlines_missed_load == 0);
}

TEST_CASE("database is swapped with one that has no tree: each number keeps its settings") {
  Settings settings = Harness::small();
  settings.overrides[1] = settings.tree;
  settings.overrides[1].policy.name = "leveling";
  Harness h(settings);
  h.open();
  h.put(1, "k", "v");
  CHECK(h.db->tree_info(1)->policy == "leveling");
  WriteBatch batch;
  batch.swap_databases(1, 0);
  h.write(batch);
  CHECK(h.db->tree_info(0)->policy == "one_leveling");
  CHECK(h.db->tree_info(1)->policy == "leveling");
  CHECK(h.get(0, "k") == "v");
}

TEST_CASE("one of several new settings is invalid: none of them applies") {
  Harness h;
  h.open();
  h.put(0, "k", "v");
  h.put(5, "k", "v");
  Settings changed = h.settings;
  changed.fsync = FsyncMode::kAlways;
  changed.memory_budget = 128 << 20;
  changed.tree.policy.name = "leveling";
  changed.overrides[5] = changed.tree;
  SECTION("an unknown merge policy") { changed.overrides[5].policy.name = "no_such_policy"; }
  SECTION("a page size out of range") { changed.overrides[5].page_size = 1; }
  SECTION("another number of databases") { changed.databases = 17; }
  const Status refused = h.db->reconfigure(changed);
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK(h.db->stats().memory_budget == h.settings.memory_budget);
  CHECK(h.db->tree_info(0)->policy == "one_leveling");
  SeqNum seq = h.put(0, "k", "w");
  CHECK(h.db->durable_seq() == seq);  // fsync is not `always`, so the write counts as durable without a sync
  CHECK(h.db->stats().synced_seq < seq);

  changed = h.settings;
  changed.fsync = FsyncMode::kAlways;
  changed.memory_budget = 128 << 20;
  changed.overrides[5] = changed.tree;
  changed.overrides[5].policy.name = "leveling";
  changed.overrides[7] = changed.overrides[5];
  REQUIRE(h.db->reconfigure(changed).is_ok());
  CHECK(h.db->stats().memory_budget == changed.memory_budget);
  CHECK(h.db->tree_info(0)->policy == "one_leveling");
  CHECK(h.db->tree_info(5)->policy == "leveling");
  CHECK(h.db->tree_info(7)->policy == "leveling");  // the tree does not exist yet
  CHECK(h.db->tree_map(7, 10)->policy == "leveling");
  seq = h.put(0, "k", "x");
  CHECK(h.db->stats().synced_seq == seq);
  h.put(6, "k", "v");
  CHECK(h.db->tree_info(6)->policy == "one_leveling");
}

TEST_CASE("tile size is automatic: it follows deletes by stamp and scans, and is kept over a restart") {
  Settings settings = with_stamp(StampMode::kExplicit);
  settings.tree.pages_per_tile = 0;
  Harness h(settings);
  h.open();
  const auto write_round = [&] {
    for (int i = 0; i < 2000; ++i) put_stamped(h, 0, "key" + std::to_string(i), static_cast<DeleteKey>(i));
    REQUIRE(h.db->flush(0).is_ok());
    h.settle();
  };
  write_round();
  CHECK(h.db->tree_info(0)->pages_per_tile == 1);
  for (DeleteKey lo = 0; lo < 20; ++lo) {
    WriteBatch batch;
    batch.delete_stamps(0, lo, lo + 1);
    h.write(batch);
  }
  write_round();
  const std::uint32_t many = h.db->tree_info(0)->pages_per_tile;
  CHECK(many == TileSize::kMost);
  write_round();
  REQUIRE(h.db->compact(0, {}).is_ok());
  h.settle();
  h.reopen();
  CHECK(h.db->tree_info(0)->pages_per_tile == many);
  for (int i = 0; i < 100'000; ++i) (void)h.db->iterate(h.db->lease(0), {});
  WriteBatch batch;
  batch.delete_stamps(0, 0, 1);
  h.write(batch);
  write_round();
  CHECK(h.db->tree_info(0)->pages_per_tile == 1);
}

TEST_CASE("databases have different memtable sizes, which change: each flushes at its own current size") {
  Settings settings = Harness::small();
  settings.databases = 2;
  settings.tree.memtable_size = 16 << 20;
  settings.tree.compression = settings.tree.compression_last_level = Compression::kNone;
  settings.overrides[1] = settings.tree;
  settings.overrides[1].memtable_size = 256 << 10;
  Harness h(settings);
  h.open();
  int written = 0;
  const auto write_a_mebibyte = [&](DatabaseId database) {
    for (int i = 0; i < 1024; ++i) h.put(database, "key" + std::to_string(100'000 + written++), std::string(1024, 'v'));
    h.settle();
  };
  const auto memtable_bytes = [&](DatabaseId database) { return h.db->tree_info(database)->memtable_bytes; };
  write_a_mebibyte(0);
  write_a_mebibyte(1);
  CHECK(memtable_bytes(0) > 1 << 20);
  CHECK(memtable_bytes(1) < 512 << 10);
  CHECK(h.db->tree_info(0)->runs.empty());
  CHECK(!h.db->tree_info(1)->runs.empty());

  demand_ok(h.db->set_tree_settings(0, settings.overrides[1]), "smaller");
  demand_ok(h.db->set_tree_settings(1, settings.tree), "larger");
  h.put(0, "one more", "value");
  h.settle();
  CHECK(memtable_bytes(0) < 64 << 10);  // the memtable that had outgrown the new size was flushed
  write_a_mebibyte(1);
  CHECK(memtable_bytes(1) > 1 << 20);
  h.verify(0);
  h.verify(1);
}

TEST_CASE("partitioning is changed while the database runs: a restart keeps the same partitions") {
  Settings settings = Harness::small();
  settings.tree.memtable_size = 32 << 10;
  settings.tree.file_size = 64 << 10;
  settings.tree.policy = {"constant", {{"k", 1}}};
  Harness h(settings);
  h.open();
  const auto key = [](std::uint64_t i) { return "what all keys begin with " + std::to_string(i * 7919 % 5000 + 10000); };
  std::uint64_t written = 0;
  const auto write = [&](std::uint64_t until) {
    for (; written < until; ++written) h.put(0, key(written), std::string(100, 'v'));
    REQUIRE(h.db->flush(0).is_ok());
    h.settle();
    for (std::uint64_t i = 0; i < until; i += 97) REQUIRE(h.get(0, key(i)) == std::string(100, 'v'));
    h.verify(0);
  };
  write(700);
  write(1500);
  CHECK(h.db->stats().sub_merges > 0);
  for (const Partitioning partitioning : {Partitioning::kLocalRange, Partitioning::kGlobalRange}) {
    settings.tree.partitioning = partitioning;
    demand_ok(h.db->set_tree_settings(0, settings.tree), "new settings");
    h.settings = settings;
    write(written + 1000);
    h.reopen();
    write(written + 1000);
    CHECK(h.db->stats().sub_merges > 0);
  }
}

TEST_CASE("stamp mode was reconfigured, and the database is emptied: its next values have the new mode") {
  Harness h(with_stamp(StampMode::kWriteTime));
  h.open();
  h.put(0, "a", "1");
  flush_database(h, 0);
  h.settle();
  REQUIRE(h.db->stamp_mode(0) == StampMode::kWriteTime);
  TreeSettings tree = h.settings.tree;
  tree.stamp = StampMode::kExplicit;
  REQUIRE(h.db->set_tree_settings(0, tree).is_ok());
  CHECK(h.db->stamp_mode(0) == StampMode::kWriteTime);
  flush_database(h, 0);
  CHECK(h.db->stamp_mode(0) == StampMode::kExplicit);
  put_stamped(h, 0, "b", 7);
  CHECK(h.stamp(0, "b") == 7);
}

}  // namespace TEST_FILE
