#include "engine/db/harness.h"

namespace TEST_FILE {

using namespace ebbtide;

std::string scan(Harness& h, DatabaseId d, const KeyRange& range = {}) {
  IteratorOptions options;
  options.bounds = range;
  auto it = h.db->iterate(h.db->lease(d), options);
  std::string out;
  for (it->seek_to_first(); it->valid(); it->next()) out.append(it->key()).append("=").append(it->value()).append(" ");
  CHECK(it->status().is_ok());
  return out;
}

TEST_CASE("value was put: reads find it in memory, in tables and after a restart") {
  Harness h;
  h.open();
  CHECK(h.get(0, "a") == "(absent)");
  h.put(0, "a", "1");
  h.put(0, "b", "2");
  h.put(0, "a", "3");
  h.del(0, "b");
  CHECK(h.get(0, "a") == "3");
  CHECK(h.get(0, "b") == "(absent)");
  SECTION("in the memtable") {}
  SECTION("after a restart") { h.reopen(); }
  SECTION("after a flush") { REQUIRE(h.db->flush(0).is_ok()); }
  SECTION("after a flush and a restart") {
    REQUIRE(h.db->flush(0).is_ok());
    h.reopen();
  }
  SECTION("after a kill") {
    h.crash(CrashMode::kEverything, 1);
    h.open();
  }
  SECTION("after a merge") { REQUIRE(h.db->compact(0, {}).is_ok()); }
  CHECK(h.get(0, "a") == "3");
  CHECK(h.get(0, "b") == "(absent)");
  CHECK(scan(h, 0) == "a=3 ");
}

TEST_CASE("databases are swapped or emptied: the change is seen at once and after a restart, and no other database changes") {
  Harness h;
  h.open();
  h.put(0, "k", "zero");
  h.put(1, "k", "one");
  WriteBatch batch;
  batch.swap_databases(0, 1);
  h.write(batch);
  CHECK(h.get(0, "k") == "one");
  CHECK(h.get(1, "k") == "zero");
  batch.clear();
  batch.put(1, "before", "x");
  batch.flush_database(1);
  batch.put(1, "after", "y");
  h.write(batch);
  const auto expect = [&] {
    CHECK(h.get(0, "k") == "one");
    CHECK(h.get(1, "k") == "(absent)");
    CHECK(h.get(1, "before") == "(absent)");
    CHECK(h.get(1, "after") == "y");
  };
  expect();
  SECTION("after a restart") { h.reopen(); }
  SECTION("killed before the manifest has the swap and the FLUSHDB") {
    h.crash(CrashMode::kEverything, 3);
    h.open();
  }
  SECTION("killed after the manifest has the swap and the FLUSHDB") {
    h.settle();
    h.crash(CrashMode::kEverything, 3);
    h.open();
  }
  SECTION("swapped twice") {
    h.settle();
    h.reopen();
    h.crash(CrashMode::kEverything, 3);
    h.open();
  }
  expect();
}

TEST_CASE("database is emptied by FLUSHDB: its tree's files are removed") {
  Harness h;
  h.open();
  for (int i = 0; i < 3000; ++i) h.put(0, key_of(i), std::string(100, 'v'));
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  CHECK(h.db->stats().table_live_bytes > 200'000);
  WriteBatch batch;
  batch.flush_database(0);
  h.write(batch);
  h.settle();
  h.advance(1000);
  h.settle();
  CHECK(h.db->stats().table_live_bytes == 0);
  std::uint64_t tables = 0;
  for (const std::string& path : h.files->tree()) tables += path.find(".data") != std::string::npos ? 1 : 0;
  CHECK(tables == 0);
}

TEST_CASE("range delete is written: it hides all older versions of its keys, and no newer version") {
  Harness h;
  h.open();
  for (int i = 0; i < 100; ++i) h.put(0, key_of(i), "old");
  REQUIRE(h.db->flush(0).is_ok());
  h.del_range(0, key_of(10), key_of(90));
  h.put(0, key_of(50), "new");
  const auto expect = [&] {
    CHECK(h.get(0, key_of(9)) == "old");
    CHECK(h.get(0, key_of(10)) == "(absent)");
    CHECK(h.get(0, key_of(50)) == "new");
    CHECK(h.get(0, key_of(89)) == "(absent)");
    CHECK(h.get(0, key_of(90)) == "old");
    CHECK(*h.db->count(0, {}) == 21);
  };
  expect();
  REQUIRE(h.db->flush(0).is_ok());
  expect();
  h.reopen();
  expect();
  REQUIRE(h.db->compact(0, {}).is_ok());
  expect();
  CHECK(h.db->tree_info(0)->runs.size() == 1);
  CHECK(h.db->tree_info(0)->runs[0].range_tombstones == 0);
  h.del_range(0, "", "");
  CHECK(*h.db->count(0, {}) == 0);
  REQUIRE(h.db->compact(0, {}).is_ok());
  CHECK(*h.db->count(0, {}) == 0);
}

TEST_CASE("keys expire: reads find none, in memory and in tables, also after a merge and a restart") {
  Harness h;
  h.open();
  const Millis now = h.db->now();
  h.put(0, "a", "1", now + 5000);
  h.put(0, "b", "2", now + 50'000);
  CHECK(h.get(0, "a") == "1");
  if (GENERATE(false, true)) REQUIRE(h.db->flush(0).is_ok());
  h.advance(5000);
  CHECK(h.get(0, "a") == "(absent)");
  CHECK(h.get(0, "b") == "2");
  CHECK(scan(h, 0) == "b=2 ");
  h.clock.set_wall(1000);  // the clock is set back
  h.db->tick();
  CHECK(h.get(0, "a") == "(absent)");
  h.reopen();
  CHECK(h.get(0, "a") == "(absent)");
  REQUIRE(h.db->compact(0, {}).is_ok());
  CHECK(h.get(0, "a") == "(absent)");
  CHECK(h.get(0, "b") == "2");
}

TEST_CASE("batch relied on a key's expiry that has passed: commit() returns kRetry and writes nothing") {
  Harness h;
  h.open();
  WriteBatch batch;
  batch.put(0, "a", "1");
  batch.rely_on_expiry(h.db->now() + 100);
  h.advance(100);
  CHECK(h.db->commit(batch).code() == Code::kRetry);
  CHECK(h.get(0, "a") == "(absent)");
}

TEST_CASE("large values go through log, tables, merges and restarts: they are unchanged") {
  Harness h;
  h.settings.memory_budget = 256 << 20;
  h.open();
  const std::string big(3 << 20, 'x'), bigger(5 << 20, 'y'), edge(kLargeValueBytes, 'e'), over(kLargeValueBytes + 1, 'o');
  h.put(0, "big", big);
  h.put(0, "small", "s");
  WriteBatch batch;
  batch.put(0, "a", "1");
  batch.put_shared(0, "bigger", std::make_shared<const std::string>(bigger), {});
  batch.put(0, "z", "2");
  batch.put(0, "edge", edge);
  batch.put(0, "over", over);
  h.write(batch);
  const auto expect = [&] {
    CHECK(h.get(0, "big") == big);
    CHECK(h.get(0, "bigger") == bigger);
    CHECK(h.get(0, "edge") == edge);
    CHECK(h.get(0, "over") == over);
    CHECK(h.get(0, "a") == "1");
    CHECK(h.get(0, "z") == "2");
    CHECK(h.get(0, "small") == "s");
  };
  expect();
  h.crash(CrashMode::kEverything, 1);
  h.open();
  expect();
  REQUIRE(h.db->flush(0).is_ok());
  expect();
  h.put(0, "c", "3");
  REQUIRE(h.db->compact(0, {}).is_ok());
  expect();
  h.reopen();
  expect();
  CHECK(h.db->verify(0)->errors.empty());
}

TEST_CASE("key is too long for the log: the batch is refused") {
  Harness h;
  h.open();
  h.put(0, std::string(kMaxKeyBytes, 'k'), "v");
  WriteBatch batch;
  SECTION("key of a value") { batch.put(0, std::string(kMaxKeyBytes + 1, 'k'), "v"); }
  SECTION("key of a delete") { batch.del(0, std::string(kMaxKeyBytes + 1, 'k')); }
  SECTION("bound of a range") { batch.delete_range(0, std::string(kMaxKeyBytes + 1, 'k'), ""); }
  CHECK(h.db->commit(batch).code() == Code::kInvalidArgument);
  h.db->write_log();
  h.crash(CrashMode::kEverything, 1);
  h.open();
  CHECK(h.get(0, std::string(kMaxKeyBytes, 'k')) == "v");
}

TEST_CASE("data is written, flushed and merged after an iterator was made: the iterator still shows its view") {
  Harness h;
  h.open();
  for (int i = 0; i < 500; ++i) h.put(0, key_of(i), "one");
  auto it = h.db->iterate(h.db->lease(0), {});
  it->seek_to_first();
  for (int i = 0; i < 500; ++i) h.put(0, key_of(i), "two");
  h.del_range(0, key_of(100), key_of(400));
  REQUIRE(h.db->flush(0).is_ok());
  REQUIRE(h.db->compact(0, {}).is_ok());
  int seen = 0;
  for (; it->valid(); it->next()) seen += it->value() == "one" ? 1 : 0;
  CHECK(seen == 500);
  CHECK(*h.db->count(0, {}) == 200);
}

TEST_CASE("directory is opened twice: the second open fails") {
  Harness h;
  h.open();
  Harness other;
  Components components;
  components.fs = h.faults.get();
  components.clock = &h.clock;
  components.background = &other.pool;
  auto second = Db::open(h.settings, components);
  CHECK(second.status().code() == Code::kBusy);
}

TEST_CASE("wall clock is far past the last use: open is refused, unless the clock is accepted") {
  Harness h;
  h.open();
  h.put(0, "a", "1");
  REQUIRE(h.db->close().is_ok());
  h.drop();
  h.clock.set_wall(h.clock.wall_ms() + 31ull * 24 * 3600 * 1000);
  const Status status = h.try_open();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message().find("--accept-clock") != Bytes::npos);
  h.settings.accept_clock = true;
  h.open();
  CHECK(h.get(0, "a") == "1");
}

TEST_CASE("database crashes many times: engine time never goes back, and is at most 11 s ahead of the wall clock") {
  Harness h;
  h.open();
  Millis last = 0;
  for (int i = 0; i < 50; ++i) {
    h.advance(1000);
    CHECK(h.db->now() >= last);
    last = h.db->now();
    h.put(0, "k", std::to_string(i));
    h.crash(CrashMode::kEverything, 1);
    h.open();
    CHECK(h.db->now() >= last);
  }
  CHECK(h.db->now() <= h.clock.wall_ms() + 10'000 + 1000);
}

TEST_CASE("log lost operations that the manifest relies on: open returns kCorruption") {
  Harness h;
  h.open();
  for (int i = 0; i < 100; ++i) h.put(0, key_of(i), "v");
  REQUIRE(h.db->close().is_ok());
  h.drop();
  for (const std::string& path : h.files->tree()) {
    if (path.find(".wal") != std::string::npos) REQUIRE(h.files->truncate(path, *h.files->file_size(path) - 10).is_ok());
  }
  const Status status = h.try_open();
  CHECK(status.code() == Code::kCorruption);
  INFO(status.to_string());
  CHECK(status.message().find("relies on") != Bytes::npos);
}

TEST_CASE("tree has tiles of mixed and changing sizes: reads are correct") {
  Harness h;
  h.open();
  int n = 0;
  for (std::uint32_t tile : {1u, 4u, 64u, 2u, 1u, 16u}) {
    TreeSettings t = h.settings.tree;
    t.pages_per_tile = tile;
    REQUIRE(h.db->set_tree_settings(0, t).is_ok());
    for (int i = 0; i < 700; ++i) h.put(0, key_of((n + i * 37) % 3000), "v" + std::to_string(tile));
    n += 500;
    REQUIRE(h.db->flush(0).is_ok());
  }
  h.settle();
  const std::uint64_t count = *h.db->count(0, {});
  std::uint64_t found = 0;
  for (int i = 0; i < 3000; ++i) found += h.get(0, key_of(i)) != "(absent)" ? 1 : 0;
  CHECK(found == count);
  CHECK(h.db->verify(0)->errors.empty());
}

}  // namespace TEST_FILE
