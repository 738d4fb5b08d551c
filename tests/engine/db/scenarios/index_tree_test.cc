// Tests of index trees: one batch writes a record and its index entry, and neither is ever seen without the other; settings, stamps
// and deadlines follow the database.
#include <algorithm>
#include <map>
#include <string>

#include "base/random.h"
#include "engine/db/harness.h"
#include "engine/db/layouts.h"
#include "support/long_run.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr DatabaseId kIndex = index_tree(0, 1);

std::map<std::string, std::string> contents(Harness& h, DatabaseId number) {
  std::map<std::string, std::string> out;
  auto it = h.db->iterate(h.db->lease(number), {});
  for (it->seek_to_first(); it->valid(); it->next()) out.emplace(it->key(), it->value());
  demand_ok(it->status(), "walk");
  return out;
}

/// Returns the index entries that the records of database 0 should have: value + key.
std::map<std::string, std::string> expected_index(Harness& h) {
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : contents(h, 0)) out.emplace(value.substr(0, 8) + key, "");
  return out;
}

/// Sets a record to a random value, or deletes it, and maintains its index entry in the same batch.
void change_record(Harness& h, Random& random) {
  const std::string key = key_of(static_cast<int>(random.uniform(200)));
  const std::string old = h.get(0, key);
  WriteBatch batch;
  if (old != "(absent)") batch.del(kIndex, old.substr(0, 8) + key);
  if (random.one_in(4)) {
    if (old != "(absent)") batch.del(0, key);
  } else {
    std::string value(100, static_cast<char>('a' + random.uniform(26)));
    value.replace(0, 8, std::to_string(10'000'000 + random.uniform(80'000'000)));
    batch.put(kIndex, value.substr(0, 8) + key, "");
    batch.put(0, key, value);
  }
  h.write(batch);
}

Settings durable_settings(std::uint64_t turn) {
  Settings s = Harness::small();
  s.tree.memtable_size = 16 << 10;
  s.wal_segment_size = 64 << 10;
  s.fsync = turn % 2 == 0 ? FsyncMode::kAlways : FsyncMode::kEverySecond;
  s.tree.delete_deadline = 3000;
  layout_of(turn / 2).set(&s.tree);
  return s;
}

TEST_CASE("power is lost during writes of records and index entries: the index has exactly the entries of the records") {
  const std::uint64_t turns = number_from_env("EBBTIDE_INDEX_CRASHES", 60);
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    INFO("turn " << turn);
    Harness h(durable_settings(turn));
    h.open();
    Random random(first_seed() + turn);
    for (int crash = 0; crash < 3; ++crash) {
      for (int i = 0; i < 150; ++i) {
        change_record(h, random);
        if (random.one_in(10)) h.pool.run_one();
        if (random.one_in(20)) h.advance(random.uniform(2000));
        if (random.one_in(60)) demand_ok(h.db->flush(random.one_in(2) ? 0 : kIndex), "flush");
      }
      REQUIRE(contents(h, kIndex) == expected_index(h));
      h.crash(turn % 3 == 0 ? CrashMode::kNothing : CrashMode::kRandom, turn * 10 + static_cast<std::uint64_t>(crash));
      h.open();
      REQUIRE(contents(h, kIndex) == expected_index(h));
    }
    h.settle();
    h.verify(0);
    h.verify(kIndex);
    h.reopen();
    REQUIRE(contents(h, kIndex) == expected_index(h));
  }
}

TEST_CASE("database and its index trees have the same key: each returns its own value") {
  Harness h;
  h.open();
  WriteBatch batch;
  for (const DatabaseId number : {0u, 3u, index_tree(0, 1), index_tree(0, 16), index_tree(3, 1)})
    batch.put(number, "k", std::to_string(number));
  h.write(batch);
  const auto expect = [&] {
    for (const DatabaseId number : {0u, 3u, index_tree(0, 1), index_tree(0, 16), index_tree(3, 1)})
      CHECK(h.get(number, "k") == std::to_string(number));
    for (const DatabaseId number : {1u, index_tree(1, 1), index_tree(0, 2), index_tree(15, 16)})
      CHECK(h.get(number, "k") == "(absent)");
  };
  expect();
  SECTION("killed before a flush") { h.crash(CrashMode::kEverything, 1); }
  SECTION("killed after a flush of the index tree only") {
    demand_ok(h.db->flush(kIndex), "flush");
    h.settle();
    h.crash(CrashMode::kEverything, 1);
  }
  SECTION("closed and opened") {
    demand_ok(h.db->close(), "close");
    h.drop();
  }
  h.open();
  expect();
}

TEST_CASE("staged batch writes to a database and its index tree: both are visible only after its commit") {
  Harness h;
  h.open();
  WriteBatch batch;
  for (int i = 0; i < 1000; ++i) {
    batch.put(0, key_of(i), "v");
    batch.put(kIndex, "v" + key_of(i), "");
  }
  auto staged = h.db->stage(std::move(batch));
  demand_ok(staged.status(), "stage");
  CHECK(contents(h, kIndex).empty());
  demand_ok(h.db->commit(**staged), "commit");
  h.db->write_log();
  CHECK(contents(h, kIndex).size() == 1000);
  h.crash(CrashMode::kEverything, 1);
  h.open();
  CHECK(contents(h, 0).size() == 1000);
  CHECK(contents(h, kIndex).size() == 1000);
}

TEST_CASE("batch empties a database and its index tree: both are empty, also after a crash, and their files are removed") {
  Harness h;
  h.open();
  for (int i = 0; i < 500; ++i) {
    WriteBatch batch;
    batch.put(0, key_of(i), "secret-record");
    batch.put(kIndex, "secret-entry" + key_of(i), "");
    h.write(batch);
  }
  demand_ok(h.db->flush(0), "flush");
  demand_ok(h.db->flush(kIndex), "flush");
  REQUIRE(h.table_bytes().find("secret-entry") != std::string::npos);
  WriteBatch batch;
  batch.flush_database(0);
  batch.flush_database(kIndex);
  batch.put(kIndex, "new", "");
  h.write(batch);
  const auto expect = [&] {
    CHECK(contents(h, 0).empty());
    CHECK(contents(h, kIndex).size() == 1);
  };
  expect();
  SECTION("manifest has the FLUSHDB") {
    h.settle();
    CHECK(h.table_bytes().find("secret") == std::string::npos);
  }
  SECTION("only the log has the FLUSHDB") {}
  h.crash(CrashMode::kEverything, 1);
  h.open();
  expect();
  h.settle();
  CHECK(h.table_bytes().find("secret") == std::string::npos);
}

TEST_CASE("databases are swapped: index trees keep their numbers") {
  Settings settings = Harness::small();
  settings.overrides[1] = settings.tree;
  settings.overrides[1].stamp = StampMode::kExplicit;
  Harness h(settings);
  h.open();
  for (const DatabaseId d : {0u, 1u}) {
    h.put(d, "k", std::to_string(d));
    h.put(index_tree(d, 1), "e", std::to_string(d));
  }
  CHECK(h.db->stamp_mode(index_tree(0, 1)) == StampMode::kGiven);
  CHECK(h.db->stamp_mode(index_tree(1, 1)) == StampMode::kExplicit);
  WriteBatch batch;
  batch.swap_databases(0, 1);
  h.write(batch);
  CHECK(h.get(0, "k") == "1");
  CHECK(h.get(index_tree(0, 1), "e") == "0");
  batch.clear();
  batch.flush_database(index_tree(0, 1));
  batch.flush_database(index_tree(1, 1));
  h.write(batch);
  const auto expect = [&] {
    CHECK(h.db->stamp_mode(index_tree(0, 1)) == StampMode::kExplicit);
    CHECK(h.db->stamp_mode(index_tree(1, 1)) == StampMode::kGiven);
    CHECK(h.get(index_tree(0, 1), "e") == "(absent)");
  };
  expect();
  h.crash(CrashMode::kEverything, 1);
  h.open();
  expect();
  h.settle();
  h.reopen();
  expect();
}

TEST_CASE("entry of an index tree is written: its stamp is the given number, else the time of the batch") {
  Harness h;
  h.open();
  const Millis first = h.db->now();
  WriteBatch batch;
  batch.put(0, "record", "v");
  batch.put(kIndex, "entry", "");
  h.write(batch);
  const DeleteKey stamp = h.stamp(0, "record");
  CHECK(h.stamp(kIndex, "entry") == stamp);
  h.advance(5000);
  batch.clear();
  batch.put(kIndex, "later", "", {.stamp = stamp});
  batch.put(kIndex, "new", "");
  h.write(batch);
  CHECK(h.stamp(kIndex, "later") == stamp);
  CHECK(h.stamp(kIndex, "new") >= first + 5000);
  batch.clear();
  batch.delete_stamps(0, first, stamp + 1);
  batch.delete_stamps(kIndex, first, stamp + 1);
  h.write(batch);
  const auto expect = [&] {
    CHECK(h.get(0, "record") == "(absent)");
    CHECK(h.get(kIndex, "entry") == "(absent)");
    CHECK(h.get(kIndex, "later") == "(absent)");
    CHECK(h.get(kIndex, "new") == "");
  };
  expect();
  h.crash(CrashMode::kEverything, 1);
  h.open();
  expect();
  demand_ok(h.db->compact(kIndex, {}), "compact");
  expect();
}

TEST_CASE("index tree has its own settings, or its database's: its deadline is always that of the database") {
  Harness h;
  h.settings.tree.delete_deadline = 60'000;
  h.settings.overrides[kIndex] = h.settings.tree;
  h.settings.overrides[kIndex].policy.name = "tiering";
  h.settings.overrides[kIndex].delete_deadline = 0;
  h.open();
  h.put(0, "k", "v");
  h.put(kIndex, "e", "");
  h.put(index_tree(0, 2), "e", "");
  CHECK(h.db->tree_map(kIndex, 1)->policy == "tiering");
  CHECK(h.db->tree_map(kIndex, 1)->delete_deadline == 60'000);
  CHECK(h.db->tree_map(index_tree(0, 2), 1)->policy == h.settings.tree.policy.name);
  TreeSettings tree = h.settings.tree;
  tree.delete_deadline = 5'000;
  tree.policy.name = "leveling";
  demand_ok(h.db->set_tree_settings(0, tree), "settings of the database");
  CHECK(h.db->tree_map(kIndex, 1)->policy == "tiering");
  CHECK(h.db->tree_map(kIndex, 1)->delete_deadline == 5'000);
  CHECK(h.db->tree_map(index_tree(0, 2), 1)->policy == "leveling");
  CHECK(h.db->tree_map(index_tree(0, 2), 1)->delete_deadline == 5'000);
  tree.policy.name = "lazy_leveling";
  demand_ok(h.db->set_tree_settings(index_tree(0, 2), tree), "settings of the index tree");
  CHECK(h.db->tree_map(index_tree(0, 2), 1)->policy == "lazy_leveling");
  CHECK(h.db->tree_map(0, 1)->policy == "leveling");
  CHECK(h.db->set_tree_settings(index_tree(0, 17), tree).code() == Code::kInvalidArgument);
  CHECK(h.db->set_tree_settings(index_tree(16, 1), tree).code() == Code::kInvalidArgument);
}

TEST_CASE("entries of an index tree are deleted: after the deadline no file has them, and the ticket is done") {
  for (const std::uint64_t turn : {0u, 2u, 5u, 9u}) {
    INFO("layout " << turn);
    Harness h(durable_settings(turn));
    h.open();
    const auto marker = [](int i) { return "marked-place-" + std::to_string(10'000 + i); };
    for (int i = 0; i < 400; ++i) {
      WriteBatch batch;
      batch.put(0, key_of(i), "v");
      const Millis expiry = i % 4 == 1 ? h.db->now() + 1000 : 0;
      batch.put(kIndex, marker(i), "", {.stamp = i % 4 == 2 ? DeleteKey{5} : kNoStamp, .expiry = expiry});
      h.write(batch);
    }
    demand_ok(h.db->flush(kIndex), "flush");
    h.settle();
    REQUIRE(h.table_bytes().find(marker(0)) != std::string::npos);
    WriteBatch batch;
    for (int i = 0; i < 400; i += 4) batch.del(kIndex, marker(i));
    for (int i = 3; i < 400; i += 4) batch.delete_range(kIndex, marker(i), marker(i) + "!");
    batch.delete_stamps(kIndex, 5, 6);
    h.write(batch);
    SeqNum up_to = 0;
    const PurgeTicket ticket = h.db->purge_ticket(&up_to);
    CHECK_FALSE(h.db->purge_status(ticket)->done);
    for (int i = 0; i < 60; ++i) {
      h.advance(100);
      h.settle();
      h.db->write_log();  // the log thread does the same, which ends segments
      h.db->tick();
      h.settle();
    }
    CHECK(h.db->purge_status(ticket)->done);
    CHECK(h.db->purge_status(ticket)->in_time == true);
    for (const std::string& path : h.files->tree()) {
      INFO(path);
      if (const auto file = read_file(*h.files, path); file.is_ok()) CHECK(file->find("marked-place-") == std::string::npos);
    }
    CHECK(h.db->count(0, {}).value() == 400);
  }
}

TEST_CASE("index tree's database is beyond the configured number: open is refused, and the error names the index tree") {
  Harness h;
  h.open();
  h.put(index_tree(7, 2), "e", "");
  SECTION("only the log has the index tree") {}
  SECTION("manifest has the index tree") {
    demand_ok(h.db->flush(index_tree(7, 2)), "flush");
    h.settle();
  }
  demand_ok(h.db->close(), "close");
  h.drop();
  h.settings.databases = 4;
  const Status status = h.try_open();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.to_string().find("index tree 2 of database 7") != std::string::npos);
}

TEST_CASE("checkpoint of a database and its index tree: the copy has both as of the same moment") {
  Harness h;
  h.open();
  Random random(first_seed() + 3);
  for (int i = 0; i < 400; ++i) change_record(h, random);
  demand_ok(h.db->flush(kIndex), "flush");
  for (int i = 0; i < 100; ++i) change_record(h, random);
  demand_ok(h.db->checkpoint("copy").status(), "checkpoint");
  const auto before = contents(h, kIndex);
  for (int i = 0; i < 100; ++i) change_record(h, random);
  demand_ok(h.db->close(), "close");
  h.drop();
  h.settings.dir = "copy";
  h.open();
  CHECK(contents(h, kIndex) == before);
  CHECK(contents(h, kIndex) == expected_index(h));
}

}  // namespace TEST_FILE
