// Tests that staged batches are sorted before the commit and read like ordinary batches afterwards.
#include <algorithm>
#include <atomic>
#include <thread>

#include "engine/db/staged.h"

namespace TEST_FILE {

using namespace ebbtide;

Settings staged_settings(StampMode mode = StampMode::kWriteTime) {
  Settings s = Harness::small();
  s.tree.stamp = mode;
  return s;
}

/// Returns a batch with every kind of operation, several versions of a key, and two databases.
WriteBatch everything(Millis now) {
  WriteBatch batch;
  for (int i = 0; i < 300; ++i) batch.put(0, key_of(i), "first " + std::to_string(i), {static_cast<DeleteKey>(i), 0});
  batch.put(0, key_of(3), "second", {1000, now + 60'000});
  batch.put(0, key_of(4), "born dead", {7, now - 1});
  batch.del(0, key_of(5));
  batch.delete_range(0, key_of(10), key_of(20));
  batch.put(0, key_of(15), "after the range", {15, 0});
  batch.put_shared(0, key_of(400), std::make_shared<const std::string>(std::string(100'000, 'x')), {9, 0});
  batch.delete_stamps(0, 100, 110);
  batch.put(0, key_of(105), "after the record", {105, 0});
  batch.put(0, key_of(6), "compact", {.stamp = 6, .expiry = now + 90'000, .kind = EntryKind::kCompact, .debt = true});
  batch.put(0, key_of(7), "born dead", {.expiry = now - 1, .kind = EntryKind::kCompact, .debt = true});
  batch.put(1, key_of(1), "in database 1", {1, 0});
  batch.del(1, key_of(2));
  return batch;
}

/// Returns the keys, values and stamps of a database.
std::string contents(Harness& h, DatabaseId d) {
  std::string out;
  const ReadView view = h.db->lease(d);
  const auto it = h.db->iterate(view, {});
  for (it->seek_to_first(); it->valid(); it->next()) {
    out += std::string(it->key()) + "=" + std::string(it->value().substr(0, 30)) + "@" + std::to_string(it->stamp()) +
           (it->kind() == EntryKind::kCompact ? "! " : " ");
    CHECK(h.get(d, it->key()) == it->value());
  }
  demand_ok(it->status(), "walk");
  return out;
}

std::string contents(Harness& h) { return contents(h, 0) + "| " + contents(h, 1); }

TEST_CASE("staged batch is committed: readers see what an ordinary batch writes, in memory, in tables and after a restart",
          "[staged]") {
  const auto mode = GENERATE(StampMode::kWriteTime, StampMode::kExpireTime, StampMode::kExplicit);
  Harness plain(staged_settings(mode)), h(staged_settings(mode));
  for (Harness* each : {&plain, &h}) {
    each->open();
    for (int i = 0; i < 30; ++i) each->put(0, key_of(i * 3), "old");
    each->put(1, key_of(2), "old");
  }
  WriteBatch batch = everything(plain.db->now());
  plain.write(batch);
  const auto staged = stage(h, everything(h.db->now()));
  commit(h, *staged);
  CHECK(staged->committed());
  CHECK(staged->batch().first_seq() == batch.first_seq());
  CHECK(staged->batch().time() == batch.time());
  const std::string expected = contents(plain);
  CHECK(contents(h) == expected);
  CHECK(h.db->tree_info(0)->oldest_obligation == plain.db->tree_info(0)->oldest_obligation);
  CHECK(h.db->lease(0).may_have_collection({key_of(6), hash_key(key_of(6))}));
  SECTION("in tables") {
    demand_ok(h.db->flush(0), "flush");
    demand_ok(h.db->flush(1), "flush");
    CHECK(h.db->tree_info(0)->memtable_entries == 0);
    CHECK(contents(h) == expected);
    demand_ok(h.db->compact(0, {}), "compact");
    CHECK(contents(h) == expected);
    h.verify(0);
  }
  SECTION("after a restart") {
    h.reopen();
    CHECK(contents(h) == expected);
  }
  SECTION("after a crash, from the log") {
    h.crash(CrashMode::kEverything, 1);
    h.open();
    CHECK(contents(h) == expected);
  }
  SECTION("after keys of the batch have expired") {
    plain.advance(61'000);
    h.advance(61'000);
    CHECK(contents(h) == contents(plain));
  }
}

TEST_CASE("staged batch is not committed: no reader, no log and no later open sees its writes", "[staged]") {
  Harness h(staged_settings());
  h.open();
  h.put(0, "a", "1");
  auto staged = stage(h, everything(h.db->now()));
  ReadView before = h.db->lease(0);
  CHECK(h.get(0, key_of(1)) == "(absent)");
  CHECK(h.db->visible_seq() == 3);  // the operations of both trees and of "a"
  SECTION("staged batch is destroyed without a commit") {
    staged.reset();
    before = {};
    h.reopen();
    CHECK(contents(h, 0).starts_with("a=1@"));
    CHECK(contents(h, 1).empty());
  }
  SECTION("staged batch is committed: an earlier view does not see it") {
    commit(h, *staged);
    Found found;
    CHECK(before.get({key_of(1), hash_key(key_of(1))}, &found).is_not_found());
    CHECK(h.get(0, key_of(1)) == "first 1");
  }
}

TEST_CASE("writes come between staging and commit: their seqs are smaller than those of the staged batch", "[staged]") {
  Harness h(staged_settings());
  h.open();
  WriteBatch batch;
  for (int i = 0; i < 100; ++i) batch.put(0, key_of(i), "staged", {});
  auto staged = stage(h, std::move(batch));
  h.put(0, key_of(1), "between");
  h.put(0, key_of(200), "between");
  commit(h, *staged);
  CHECK(h.get(0, key_of(1)) == "staged");
  CHECK(h.get(0, key_of(200)) == "between");
  h.put(0, key_of(1), "after");
  CHECK(h.get(0, key_of(1)) == "after");
  h.reopen();
  CHECK(h.get(0, key_of(1)) == "after");
  CHECK(h.get(0, key_of(2)) == "staged");
}

TEST_CASE("databases change between staging and commit: the batch goes to the trees that they have at the commit", "[staged]") {
  Harness h(staged_settings());
  h.open();
  const bool exists = GENERATE(true, false);
  if (exists) {
    h.put(0, "a", "of 0");
    h.put(1, "b", "of 1");
  }
  WriteBatch batch;
  batch.put(0, "x", "staged", {});
  batch.put(1, "y", "staged", {});
  auto staged = stage(h, std::move(batch));
  SECTION("database is emptied between staging and commit") {
    WriteBatch flush;
    flush.flush_database(0);
    flush.flush_database(1);
    h.write(flush);
  }
  SECTION("databases are swapped between staging and commit") {
    WriteBatch swap;
    swap.swap_databases(0, 1);
    h.write(swap);
  }
  SECTION("databases get their first write between staging and commit") {
    h.put(0, "c", "1");
    h.put(1, "c", "1");
  }
  SECTION("database is emptied, and its stamp mode changes, between staging and commit") {
    TreeSettings tree = h.settings.tree;
    tree.stamp = StampMode::kExplicit;
    demand_ok(h.db->set_tree_settings(0, tree), "settings");
    WriteBatch flush;
    flush.flush_database(0);
    h.write(flush);
    if (exists) CHECK(h.db->stamp_mode(0) == StampMode::kExplicit);
  }
  commit(h, *staged);
  const std::string now = contents(h);
  CHECK(h.get(0, "x") == "staged");
  CHECK(h.get(1, "y") == "staged");
  CHECK(h.get(0, "y") == "(absent)");
  h.crash(CrashMode::kEverything, 1);
  h.open();
  CHECK(contents(h) == now);
}

TEST_CASE("value expires between staging and commit: it counts as a delete born at the commit", "[staged]") {
  Harness h(staged_settings());
  h.open();
  h.put(0, "k", "old");
  const Millis begun = h.db->now();
  WriteBatch batch;
  batch.put(0, "k", "short-lived", {kNoStamp, begun + 100});
  batch.put(0, "l", "lives", {kNoStamp, begun + 100'000});
  auto staged = stage(h, std::move(batch));
  h.advance(5000);
  commit(h, *staged);
  CHECK(staged->batch().time() >= begun + 5000);
  CHECK(h.get(0, "k") == "(absent)");
  CHECK(h.get(0, "l") == "lives");
  // The birth is the commit, not the value's expiry: deletes of that time may count as purged already.
  CHECK(h.db->tree_info(0)->oldest_obligation == staged->batch().time());
  demand_ok(h.db->flush(0), "flush");
  CHECK(h.get(0, "k") == "(absent)");
  CHECK(h.get(0, "l") == "lives");
}

TEST_CASE("expiry on which a staged batch relies passes: its commit returns kRetry and writes nothing", "[staged]") {
  Harness h(staged_settings());
  h.open();
  h.put(0, "k", "old");
  const SeqNum before = h.db->visible_seq();
  WriteBatch batch;
  batch.put(0, "k", "new", {});
  batch.rely_on_expiry(h.db->now() + 1000);
  auto staged = stage(h, std::move(batch));
  h.advance(2000);
  std::uint32_t wait_ms = 0;
  CHECK(h.db->try_commit(*staged, false, &wait_ms).code() == Code::kRetry);
  CHECK_FALSE(staged->committed());
  CHECK(h.db->visible_seq() == before);
  CHECK(h.get(0, "k") == "old");
}

TEST_CASE("commit of a staged batch was refused: a later commit of the batch succeeds", "[staged]") {
  Harness h(staged_settings());
  h.open();
  h.put(0, "k", "old");
  auto staged = stage(h, everything(h.db->now()));
  h.lose_write();
  std::uint32_t wait_ms = 0;
  CHECK(h.db->try_commit(*staged, false, &wait_ms).code() == Code::kReadOnly);
  h.heal();
  commit(h, *staged);
  CHECK(h.get(0, key_of(2)) == "first 2");
  h.reopen();
  CHECK(h.get(0, key_of(2)) == "first 2");
}

TEST_CASE("log fails after a staged commit: healing flushes the visible data from the memtables", "[staged]") {
  Harness h(staged_settings());
  h.open();
  auto staged = stage(h, everything(h.db->now()));
  h.faults->inject({.ops = ops_of(FileOp::kWrite), .path_has = ".wal"});
  std::uint32_t wait_ms = 0;
  demand_ok(h.db->try_commit(*staged, false, &wait_ms), "commit");
  h.db->write_log();
  const std::string seen = contents(h);
  h.heal();
  CHECK(contents(h) == seen);
  h.crash(CrashMode::kNothing, 1);
  h.open();
  CHECK(contents(h) == seen);
}

TEST_CASE("batch empties or swaps databases: stage() refuses it, and it can still be committed", "[staged]") {
  Harness h(staged_settings());
  h.open();
  h.put(0, "k", "old");
  WriteBatch batch;
  batch.put(0, "l", "1", {});
  SECTION("batch empties a database") { batch.flush_database(0); }
  SECTION("batch swaps databases") { batch.swap_databases(0, 1); }
  batch.put(0, "m", "1", {});
  CHECK(h.db->stage(std::move(batch)).status().code() == Code::kUnsupported);
  CHECK(batch.count() == 3);
  h.write(batch);
  CHECK(h.get(0, "k") == "(absent)");
  CHECK(h.get(0, "m") == "1");
}

TEST_CASE("staging is stopped: stage() returns kAborted, leaves the batch unchanged and charges no memory", "[staged]") {
  Harness h(staged_settings());
  h.open();
  WriteBatch batch = everything(h.db->now());
  const std::uint32_t count = batch.count();
  const std::atomic<bool> stop{true};
  CHECK(h.db->stage(std::move(batch), &stop).status().code() == Code::kAborted);
  CHECK(batch.count() == count);
  CHECK(h.db->memory().charged() == 0);
}

TEST_CASE("batch is staged: its memory is charged until it is committed or destroyed", "[staged]") {
  Harness h(staged_settings());
  h.open();
  h.db->tick();
  auto staged = stage(h, everything(h.db->now()));
  CHECK(h.db->memory().charged() == staged->memory_bytes());
  CHECK(staged->memory_bytes() > 300 * 40);
  SECTION("batch is committed") { commit(h, *staged); }
  SECTION("batch is destroyed") { staged.reset(); }
  CHECK(h.db->memory().charged() == 0);
  WriteBatch huge;
  for (int i = 0; i < 2000; ++i) huge.put(0, key_of(i), std::string(40'000, 'x'), {});
  CHECK(h.db->stage(std::move(huge)).status().code() == Code::kOutOfMemory);  // 80 MB, with a budget of 64 MB
  CHECK(huge.count() == 2000);
  CHECK(h.db->memory().charged() == 0);
}

TEST_CASE("large batch is committed directly: the commit puts it into a memtable of its own", "[staged]") {
  Harness h(staged_settings());
  h.open();
  h.put(0, "k", "old");
  WriteBatch batch;
  for (std::uint32_t i = 0; i < StagedBatch::kLeastOperations; ++i) batch.put(0, key_of(static_cast<int>(i)), "v", {});
  CHECK(StagedBatch::pays_for(batch));
  demand_ok(h.db->commit(batch), "commit");
  CHECK(h.db->tree_info(0)->frozen_memtables == 2);  // the operations of "k" and the batch
  CHECK(h.get(0, key_of(77)) == "v");
  h.settle();
  CHECK(h.db->tree_info(0)->frozen_memtables == 0);
  CHECK(h.get(0, key_of(77)) == "v");
}

TEST_CASE("commit of a large batch is refused: the batch stays unchanged and commits later", "[staged]") {
  Harness h(staged_settings());
  h.open();
  h.put(0, "k", "old");
  h.put(1, "k", "old");
  WriteBatch batch;
  for (std::uint32_t i = 0; i < StagedBatch::kLeastOperations; ++i) batch.put(i % 2, key_of(i), "v", {});
  batch.rely_on_expiry(h.db->now() + 1000);
  h.advance(2000);
  CHECK(h.db->commit(batch).code() == Code::kRetry);
  WriteBatch::Op op;
  for (std::size_t cursor = 0, i = 0; batch.next_op(&cursor, &op); ++i) REQUIRE(op.tree == i % 2);
  CHECK(h.db->commit(batch).code() == Code::kRetry);
  CHECK(h.get(0, key_of(2)) == "(absent)");
}

TEST_CASE("batch has few large values: the log gets them in pieces, and they have no memtable of their own", "[staged]") {
  Harness h(staged_settings());
  h.open();
  h.put(0, "k", "old");
  WriteBatch batch;
  batch.put_shared(0, "large", std::make_shared<const std::string>(std::string(8 << 20, 'x')), {});
  SECTION("batch is staged") { commit(h, *stage(h, std::move(batch))); }
  SECTION("batch is committed without staging") { h.write(batch); }
  CHECK(h.db->tree_info(0)->frozen_memtables == 0);
  CHECK(h.get(0, "large").size() == 8 << 20);
  CHECK(h.db->memory().charged() == 0);
  h.crash(CrashMode::kEverything, 1);
  h.open();
  CHECK(h.get(0, "large").size() == 8 << 20);
  CHECK(h.get(0, "k") == "old");
}

TEST_CASE("staged batches are small: their memtables stay until one is full, a flush is requested or deletes are due",
          "[staged]") {
  Settings settings = staged_settings();
  settings.tree.memtable_size = 1 << 20;
  settings.tree.delete_deadline = 60'000;
  Harness h(settings);
  h.open();
  for (int i = 0; i < 500; ++i) h.put(0, key_of(i), "old");
  demand_ok(h.db->flush(0), "flush");
  h.settle();
  const std::uint64_t flushes = h.db->stats().flushes;
  WriteBatch batch;
  for (int i = 0; i < 100; ++i) batch.put(0, key_of(i), "new", {});
  const auto staged = stage(h, std::move(batch));
  commit(h, *staged);
  h.advance(100);
  h.settle();
  CHECK(h.db->stats().flushes == flushes);
  CHECK(h.db->tree_info(0)->frozen_memtables == 1);
  SECTION("flush by request, with an empty active memtable") {
    demand_ok(h.db->flush(0), "flush");
    CHECK(h.db->tree_info(0)->frozen_memtables == 0);
  }
  SECTION("other writes fill one memtable's size") {
    for (int n = 0; n < 5; ++n) {
      WriteBatch more;
      for (int i = 0; i < 20; ++i) more.put(0, key_of(i), "more", {});
      const auto next = stage(h, std::move(more));
      commit(h, *next);
      h.put(0, "between", "1");
    }
    h.settle();
    CHECK(h.db->tree_info(0)->frozen_memtables == 0);
  }
  SECTION("deletes in the batch are due") {
    WriteBatch dels;
    for (int i = 0; i < 100; ++i) dels.del(0, key_of(i));
    const auto next = stage(h, std::move(dels));
    commit(h, *next);
    h.settle();
    CHECK(h.db->tree_info(0)->frozen_memtables == 2);
    for (int i = 0; i < 600 && h.db->tree_info(0)->frozen_memtables != 0; ++i) {
      h.advance(100);
      h.settle();
    }
    CHECK(h.db->tree_info(0)->frozen_memtables == 0);
    for (int i = 0; i < 100; ++i) CHECK(h.get(0, key_of(i)) == "(absent)");
  }
}

TEST_CASE("staged batch deletes or replaces keys: their old values are in no file after the deadline", "[staged]") {
  const bool replaces = GENERATE(false, true);
  Settings settings = staged_settings();
  settings.tree.delete_deadline = 20'000;
  Harness h(settings);
  h.open();
  WriteBatch batch;
  for (int i = 0; i < 200; ++i) batch.put(0, "secret-key-" + std::to_string(i), "secret-value-" + std::to_string(i), {});
  const auto written = stage(h, std::move(batch));
  commit(h, *written);
  h.advance(200);
  WriteBatch dels;
  for (int i = 0; i < 200; ++i) {
    const std::string key = "secret-key-" + std::to_string(i);
    replaces ? dels.put(0, key, "rest", {.kind = EntryKind::kCompact, .debt = true}) : dels.del(0, key);
  }
  const auto deleted = stage(h, std::move(dels));
  commit(h, *deleted);
  h.put(0, "other", "1");
  for (int i = 0; i < 200; ++i) {
    h.advance(100);
    h.db->write_log();  // this ends segments
    h.settle();
  }
  for (const std::string& path : h.files->tree()) {
    INFO(path);
    const auto bytes = read_file(*h.files, path);
    if (bytes.is_ok()) CHECK(bytes->find(replaces ? "secret-value-" : "secret-") == std::string::npos);
  }
  CHECK(h.get(0, "other") == "1");
  CHECK(h.get(0, "secret-key-7") == (replaces ? "rest" : "(absent)"));
}

TEST_CASE("log grows past the memtable of a small staged batch: it is flushed, and its segments are removed", "[staged]") {
  Harness h(staged_settings());
  h.open();
  WriteBatch batch;
  batch.put(1, "rests", "1", {});
  const auto staged = stage(h, std::move(batch));
  commit(h, *staged);
  h.settle();
  REQUIRE(h.db->tree_info(1)->frozen_memtables == 1);
  const std::string first = h.paths(".wal").front();
  for (int i = 0; i < 4000; ++i) {
    h.put(0, key_of(i), std::string(1000, 'v'));
    if (i % 50 != 0) continue;
    h.advance(100);
    h.settle();
  }
  CHECK(h.db->tree_info(1)->frozen_memtables == 0);
  CHECK_FALSE(h.files->exists(first));
  CHECK(h.get(1, "rests") == "1");
}

TEST_CASE(
    "staged memtable needs a segment that has a deleted key: the memtable is flushed and the segment removed by the deadline",
    "[staged]") {
  Settings settings = staged_settings();
  settings.fsync = FsyncMode::kAlways;
  settings.tree.delete_deadline = 3'600'000;
  Harness h(settings);
  h.open();
  h.put(0, "deleted key", "value");
  h.del(0, "deleted key");
  demand_ok(h.db->flush(0), "flush");
  WriteBatch batch;
  batch.put(0, "other", "value", {});  // this is no delete, so its memtable is flushed only because of the segment
  const auto staged = stage(h, std::move(batch));
  commit(h, *staged);
  REQUIRE(h.db->tree_info(0)->frozen_memtables == 1);
  const auto logged = [&] {
    for (const std::string& path : h.paths(".wal")) {
      if (read_file(*h.files, path)->find("deleted key") != std::string::npos) return true;
    }
    return false;
  };
  CHECK(logged());
  for (int tick = 0; tick < 200; ++tick) {
    h.advance(20'000);
    h.settle();
    h.db->write_log();
  }
  CHECK_FALSE(logged());
  CHECK(h.get(0, "other") == "value");
}

}  // namespace TEST_FILE
