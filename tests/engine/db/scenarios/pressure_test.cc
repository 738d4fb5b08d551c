// Tests with full memory, full disks and failing compactions: the operations that must still work.
#include "engine/db/harness.h"

namespace TEST_FILE {

using namespace ebbtide;

/// Adds an unmerged run.
void add_run(Harness& h) {
  h.db->pause_compactions();
  for (int i = 0; i < 10; ++i) h.put(0, key_of(i), "v");
  REQUIRE(h.db->flush(0).is_ok());
  h.db->resume_compactions();
}

/// Adds runs until writes are stopped.
void stop_writes(Harness& h) {
  h.db->pause_compactions();
  for (int run = 0; run < 80; ++run) add_run(h);
  h.db->resume_compactions();
  h.db->tick();
  REQUIRE(h.db->writes_stopped());
}

TEST_CASE("many databases have memtables: they are flushed early, so that no write is refused for memory") {
  Settings settings = Harness::small();
  settings.memory_budget = 64 << 20;
  settings.tree.memtable_size = 16 << 20;
  settings.wal_segment_size = 64 << 20;
  Harness h(settings);
  h.open();
  int refused = 0;
  for (int i = 0; i < 80; ++i) {
    for (DatabaseId d = 0; d < 16; ++d) {
      WriteBatch batch;
      batch.put(d, key_of(i), std::string(60'000, 'v'));
      if (!h.db->commit(batch).is_ok()) ++refused;
      h.db->write_log();
    }
    h.advance(100);
    h.settle();
  }
  CHECK(refused == 0);
  CHECK(h.db->stats().memtable_bytes < h.settings.memory_budget);
}

TEST_CASE("no tick comes, as during a long sync of the log: writers wait once memtables have their share of the budget") {
  Settings settings = Harness::small();
  settings.memory_budget = 64 << 20;
  settings.tree.memtable_size = 16 << 20;
  settings.wal_segment_size = 64 << 20;
  Harness h(settings);
  h.open();
  const DatabaseId databases = GENERATE(1, 16);
  bool waits = false;
  for (int i = 0; i < 5'000 && !waits; ++i) {  // 300 MB at most
    WriteBatch batch;
    batch.put(static_cast<DatabaseId>(i) % databases, key_of(i), std::string(60'000, 'v'));
    std::uint32_t ms = 0;
    Status status = h.db->try_commit(batch, false, &ms);
    if (status.code() == Code::kBusy) status = h.db->try_commit(batch, true, &ms);
    waits = status.code() == Code::kBusy;
    REQUIRE((waits || status.is_ok()));
    h.db->write_log();
    h.clock.advance(10);
  }
  CHECK(waits);
  CHECK(h.db->stats().memtable_bytes < settings.memory_budget);
  h.advance(100);
  h.settle();
  WriteBatch batch;
  batch.put(0, "after the flush", "v");
  std::uint32_t ms = 0;
  CHECK(h.db->try_commit(batch, true, &ms).is_ok());
}

TEST_CASE("memory is short: small memtables stay in memory, and large ones are flushed together") {
  Settings settings = Harness::small();
  settings.memory_budget = 64 << 20;
  settings.tree.memtable_size = 16 << 20;
  settings.wal_segment_size = 64 << 20;
  settings.databases = 64;
  Harness h(settings);
  h.open();
  const auto put_in_all = [&](std::size_t bytes) {
    for (DatabaseId d = 0; d < settings.databases; ++d) h.put(d, "k" + std::to_string(bytes), std::string(bytes, 'v'));
  };
  put_in_all(1000);
  h.settle();
  h.db->memory().charge(MemoryAccount::Kind::kConnections, settings.memory_budget);
  h.advance(100);
  h.advance(100);
  h.settle();
  CHECK(h.db->stats().flushes == 0);  // 64 memtables of a few KiB are too small for files
  put_in_all(300'000);                // 300 KB each is more than the 1/512 of the budget that each may keep
  CHECK(h.db->stats().memtable_bytes > 18 << 20);
  std::uint64_t synced = 0;
  h.watch->on_call = [&](const FileCall& call) {
    if (call.op == FileOp::kSync && call.path.find("MANIFEST") != std::string::npos) ++synced;
  };
  h.advance(100);
  h.settle();
  h.watch->on_call = nullptr;
  CHECK(h.db->stats().flushes == settings.databases);
  CHECK(synced < settings.databases / 4);
  CHECK(h.db->stats().memtable_bytes < 2 << 20);
  h.db->memory().release(MemoryAccount::Kind::kConnections, settings.memory_budget);
  h.advance(100);
  for (DatabaseId d = 0; d < settings.databases; ++d) CHECK(h.get(d, "k1000").size() == 1000);
}

TEST_CASE("small memtables keep the oldest log segment: one tick flushes all of them") {
  Settings settings = Harness::small();
  settings.databases = 64;
  settings.tree.memtable_size = 256 << 10;
  Harness h(settings);
  h.open();
  for (DatabaseId d = 1; d < settings.databases; ++d) h.put(d, "k", "v");
  for (int i = 0; i < 160; ++i) {  // 4 segments are 1 MiB
    h.put(0, key_of(i), std::string(10'000, 'v'));
    h.settle();
  }
  REQUIRE(h.db->stats().wal_live_bytes > 1 << 20);
  const std::uint64_t before = h.db->stats().flushes;
  h.advance(100);
  h.settle();
  CHECK(h.db->stats().flushes >= before + settings.databases - 1);
  CHECK(h.db->stats().wal_live_bytes < 1 << 20);
}

TEST_CASE("frozen memtables fill the budget: writes wait for flushes and are not refused") {
  Settings settings = Harness::small();
  settings.memory_budget = 16 << 20;
  settings.tree.memtable_size = 16 << 20;
  settings.wal_segment_size = 64 << 20;
  Harness h(settings);
  h.open();
  bool stopped = false;
  for (int i = 0; i < 600 && !stopped; ++i) {  // 36 MB at most without a flush
    WriteBatch batch;
    batch.put(0, key_of(i), std::string(60'000, 'v'));
    std::uint32_t wait_ms = 0;
    REQUIRE(h.db->try_commit(batch, true, &wait_ms).is_ok());
    h.db->write_log();
    if (i % 5 == 0) h.advance(100);
    stopped = h.db->writes_stopped();
  }
  REQUIRE(stopped);
  CHECK(h.db->stats().memtable_bytes < settings.memory_budget + settings.memory_budget / 10);
  h.settle();
  h.advance(100);
  CHECK_FALSE(h.db->writes_stopped());
  h.put(0, "k", "v");
}

TEST_CASE("compaction fails: it is retried at growing intervals until it succeeds") {
  Harness h;
  h.open();
  h.db->pause_compactions();
  for (int run = 0; run < 6; ++run) {
    for (int i = 0; i < 100; ++i) h.put(0, key_of(i), "run" + std::to_string(run));
    REQUIRE(h.db->flush(0).is_ok());
  }
  FileFault fault;
  fault.ops = ops_of(FileOp::kCreate);
  fault.path_has = ".data";
  fault.sticky = true;
  fault.code = Code::kNoSpace;
  h.faults->inject(fault);
  h.db->resume_compactions();
  for (int i = 0; i < 300; ++i) {  // half a minute in all
    h.advance(100);
    h.settle();
  }
  CHECK(h.faults->failures() >= 2);
  CHECK(h.faults->failures() <= 20);
  CHECK(h.db->write_status().is_ok());
  h.faults->clear_faults();
  for (int i = 0; i < 100; ++i) {
    h.advance(1000);
    h.settle();
  }
  CHECK(h.db->stats().compactions > 0);
  CHECK(h.get(0, key_of(5)) == "run5");
}

TEST_CASE("compaction has failed for minutes: it succeeds within five seconds after disk space is free") {
  Harness h;
  h.open();
  h.db->pause_compactions();
  for (int run = 0; run < 6; ++run) add_run(h);
  h.faults->inject({.ops = ops_of(FileOp::kCreate), .sticky = true, .code = Code::kNoSpace, .path_has = ".data"});
  h.db->resume_compactions();
  for (int i = 0; i < 3000; ++i) {
    h.advance(100);
    h.settle();
  }
  REQUIRE(h.db->stats().compactions == 0);
  h.faults->clear_faults();
  for (int i = 0; i < 50; ++i) {
    h.advance(100);
    h.settle();
  }
  CHECK(h.db->stats().compactions > 0);
}

TEST_CASE("runs are at the hard limit and compactions fail: data is refused at once, and deletes and FLUSHDB work") {
  Harness h;
  h.open();
  FileFault fault;
  h.db->pause_compactions();
  for (int run = 0; run < 80; ++run) add_run(h);
  fault.ops = ops_of(FileOp::kCreate);
  fault.path_has = ".data";
  fault.sticky = true;
  fault.code = Code::kNoSpace;
  h.faults->inject(fault);
  h.db->resume_compactions();
  h.advance(1000);
  h.settle();
  h.advance(1000);
  REQUIRE(h.db->stats().write_stalled);
  WriteBatch batch;
  batch.put(0, "more", "data");
  CHECK(h.db->commit(batch).code() == Code::kNoSpace);
  h.del(0, key_of(3));
  CHECK(h.get(0, key_of(3)) == "(absent)");
  h.del_range(0, key_of(4), key_of(6));
  batch.clear();
  batch.flush_database(0);
  h.write(batch);
  CHECK(h.get(0, key_of(7)) == "(absent)");
  h.faults->clear_faults();
  h.settle();
  h.advance(1000);
  h.settle();
  h.advance(1000);
  h.put(0, "more", "data");
  CHECK(h.get(0, "more") == "data");
}

TEST_CASE("writes are stopped: a caller that must not wait gets kBusy, and nothing is written") {
  Harness h;
  h.open();
  stop_writes(h);
  CHECK(h.db->stats().write_stalled);
  const SeqNum before = h.db->visible_seq();
  WriteBatch batch;
  batch.put(0, "more", "data");
  std::uint32_t wait_ms = 0;
  for (const bool waited : {false, true}) {
    CHECK(h.db->try_commit(batch, waited, &wait_ms).code() == Code::kBusy);
    CHECK(wait_ms > 0);
  }
  CHECK(h.db->visible_seq() == before);
  CHECK(h.get(0, "more") == "(absent)");
  WriteBatch flush;
  flush.flush_database(0);
  CHECK(h.db->try_commit(flush, false, &wait_ms).is_ok());
  CHECK(wait_ms == 0);
  h.settle();
  h.advance(1000);
  CHECK(h.db->try_commit(batch, true, &wait_ms).is_ok());
  CHECK(wait_ms == 0);
}

TEST_CASE("writes are stopped: a caller in commit() runs background tasks until writes go on") {
  Harness h;
  h.open();
  h.put(3, "k", "v");
  h.settle();
  stop_writes(h);
  WriteBatch flush, batch;
  flush.flush_database(3);
  h.write(flush);  // the flush comes before merges
  batch.put(0, "more", "data");
  REQUIRE(h.db->commit(batch).is_ok());
  CHECK_FALSE(h.db->writes_stopped());
}

TEST_CASE("writes are stopped and the database becomes read-only: writes are refused instead of waiting") {
  Harness h;
  h.open();
  stop_writes(h);
  h.faults->inject({.sticky = true});
  h.advance(20'000);  // the mark of engine time cannot be written
  REQUIRE_FALSE(h.db->write_status().is_ok());
  CHECK_FALSE(h.db->writes_stopped());
  WriteBatch batch;
  batch.put(0, "more", "data");
  std::uint32_t wait_ms = 0;
  CHECK(h.db->try_commit(batch, true, &wait_ms).code() == Code::kReadOnly);
  CHECK(wait_ms == 0);
  h.faults->clear_faults();
  h.advance(5000);
  h.settle();
  h.advance(1000);
  CHECK(h.db->try_commit(batch, true, &wait_ms).is_ok());
}

TEST_CASE("several writers wait during a stop: the time of the stop is counted once") {
  Harness h;
  h.open();
  stop_writes(h);
  const std::uint64_t before = h.db->stats().stall_micros_runs;
  WriteBatch batch;
  batch.put(0, "more", "data");
  std::uint32_t wait_ms = 0;
  for (int asked = 0; asked < 10; ++asked) (void)!h.db->try_commit(batch, asked > 0, &wait_ms).is_ok();
  CHECK(h.db->stats().stall_micros_runs == before);
  h.advance(2000);
  CHECK(h.db->stats().stall_micros_runs - before >= 2'000'000);
  CHECK(h.db->stats().stall_micros_runs - before <= 2'200'000);
}

TEST_CASE("pressure is just below a stop: writes are delayed many times longer than when the slowdown began") {
  Harness h;
  h.open();
  std::vector<std::uint32_t> waits;
  for (int run = 0; run < 100 && !h.db->writes_stopped(); ++run) {
    WriteBatch batch;
    batch.put(0, "big", std::string(2'000, 'b'));
    std::uint32_t wait_ms = 0;
    h.clock.advance(1'000);  // no write is queued any more
    if (h.db->try_commit(batch, false, &wait_ms).code() == Code::kBusy) waits.push_back(wait_ms);
    add_run(h);
    h.db->tick();
  }
  REQUIRE(waits.size() >= 2);
  CHECK(waits.back() >= 4);  // at 5 MB/s it would be 0.4 ms, which is not waited for
  CHECK(std::is_sorted(waits.begin(), waits.end()));
}

TEST_CASE("writes are slowed down: callers that do not sleep get waiting times one after the other") {
  Harness h;
  h.open();
  WriteBatch batch;
  std::uint32_t wait_ms = 0;
  // Runs are added one by one until writes are delayed but not stopped.
  for (int run = 0; run < 100 && wait_ms == 0; ++run) {
    batch.clear();  // a committed batch names trees instead of databases
    batch.put(0, "big", std::string(60'000, 'b'));
    add_run(h);
    h.db->tick();
    (void)!h.db->try_commit(batch, false, &wait_ms).is_ok();
  }
  REQUIRE_FALSE(h.db->stats().write_stalled);
  REQUIRE(wait_ms > 0);
  std::uint32_t next_ms = 0;
  CHECK(h.db->try_commit(batch, false, &next_ms).code() == Code::kBusy);
  CHECK(next_ms > wait_ms);  // the second commit's slot is after the first commit's
  for (int i = 0; i < 100; ++i) (void)!h.db->try_commit(batch, false, &next_ms).is_ok();
  CHECK(next_ms <= 100);
  CHECK(h.db->try_commit(batch, true, &next_ms).is_ok());  // the commit has waited long enough
  CHECK(next_ms == 0);
}

TEST_CASE("lease keeps files of deleted data: they are removed soon after the lease ends, without another write") {
  Harness h;
  h.open();
  for (int i = 0; i < 100; ++i) h.put(0, key_of(i), "old");
  REQUIRE(h.db->flush(0).is_ok());
  auto lease = std::make_unique<ReadView>(h.db->lease(0));
  for (int i = 0; i < 100; ++i) h.del(0, key_of(i));
  REQUIRE(h.db->compact(0, {}).is_ok());
  h.advance(1000);
  h.settle();
  CHECK(h.paths(".data").size() >= 1);
  lease.reset();
  h.advance(1000);
  h.settle();
  CHECK(h.paths(".data").empty());
}

TEST_CASE("tombstones lie outside a manual compaction's range: they stay, and the compaction ends") {
  Harness h;
  h.open();
  for (int i = 0; i < 10; ++i) h.put(0, key_of(i), "old");
  REQUIRE(h.db->compact(0, {}).is_ok());
  for (int i = 50; i < 60; ++i) h.put(0, key_of(i), "old");
  h.del(0, key_of(5));
  REQUIRE(h.db->flush(0).is_ok());
  REQUIRE(h.db->compact(0, {key_of(40), key_of(70)}).is_ok());
  CHECK(h.get(0, key_of(5)) == "(absent)");
  CHECK(h.get(0, key_of(4)) == "old");
  CHECK(h.get(0, key_of(55)) == "old");
}

TEST_CASE("disk is full: writes of data are refused, deletes and FLUSHDB work, and the database heals by itself") {
  Harness h;
  h.settings.max_disk_bytes = 1 << 20;
  h.open();
  Status status;
  int n = 0;
  for (; n < 20'000 && status.is_ok(); ++n) {
    WriteBatch batch;
    batch.put(0, key_of(n), std::string(200, 'v'));
    status = h.db->commit(batch);
    h.db->write_log();
    if (n % 100 == 0) h.settle();
    if (n % 100 == 0) h.advance(100);
  }
  CHECK(status.code() == Code::kNoSpace);
  h.del(0, key_of(1));
  h.del_range(0, key_of(2), key_of(4));
  CHECK(h.get(0, key_of(3)) == "(absent)");
  WriteBatch batch;
  batch.flush_database(0);
  h.write(batch);
  for (int i = 0; i < 50; ++i) {
    h.advance(100);
    h.settle();
  }
  h.put(0, "again", "1");
  CHECK(h.get(0, "again") == "1");
}

// Regression: all memtables were flushed at once or not at all, so with more than the reserve the database stayed read-only.
// Pages for punching begin at blocks of their own, so values of a little over half a page have one page each. A log segment stays
// until tables have all of it.
TEST_CASE("disk fills up suddenly: flushes still have room for tables twice as large as their memtables") {
  Harness h;
  h.settings.wal_segment_size = 16 << 20;
  h.settings.tree.pages_per_tile = 8;
  h.open();
  h.advance(1000);
  h.settle();
  const std::string value(2200, 'v');
  int n = 0;
  for (; static_cast<std::uint64_t>(n + 2) * value.size() < 2 * h.settings.tree.memtable_size; ++n) h.put(0, key_of(n), value);
  h.files->set_capacity(h.files->used_bytes());
  h.settle();
  h.heal();
  h.del(0, key_of(0));
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  CHECK(h.get(0, key_of(0)) == "(absent)");
  for (int i = 1; i < n; ++i) REQUIRE(h.get(0, key_of(i)) == value);
}

TEST_CASE("disk is suddenly full, and memtables exceed the reserved space: reads and deletes work") {
  const bool log_fails = GENERATE(true, false);
  Harness h;
  h.settings.wal_segment_size = 64 << 10;
  h.open();
  h.advance(1000);
  h.settle();
  REQUIRE(h.files->exists("data/RESERVE"));
  const std::uint64_t set_aside = *h.files->allocated_bytes("data/RESERVE");
  const auto value_of = [](int i) { return std::string(1000, static_cast<char>('a' + i % 26)); };
  int n = 0;
  for (; static_cast<std::uint64_t>(n) * 1000 < 2 * set_aside; ++n) h.put(0, key_of(n), value_of(n));
  h.put(1, "other", "tree");  // a new tree, which the manifest does not have yet
  h.files->set_capacity(h.files->used_bytes());
  if (log_fails) {
    WriteBatch batch;
    batch.put(0, "unknown", std::string(5000, 'u'));
    REQUIRE(h.db->commit(batch).is_ok());
    h.db->write_log();
  } else {
    h.settle();
  }
  CHECK(h.db->write_status().code() == Code::kReadOnly);
  h.heal();
  CHECK(h.events.heard("read-only"));
  h.del(0, key_of(0));
  WriteBatch batch;
  batch.put(0, "more", "data");
  CHECK(h.db->commit(batch).code() == Code::kNoSpace);
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  for (const bool lived : {true, false}) {
    INFO((lived ? "without a restart" : "after a power loss"));
    if (!lived) {
      h.crash(CrashMode::kNothing, 1);
      h.open();
    }
    CHECK(h.get(0, key_of(0)) == "(absent)");
    for (int i = 1; i < n; ++i) REQUIRE(h.get(0, key_of(i)) == value_of(i));
    CHECK(h.get(1, "other") == "tree");
    if (log_fails) CHECK(h.get(0, "unknown") == std::string(5000, 'u'));
    h.verify(0);
  }
}

TEST_CASE("disk has room for little more than the active memtable: writes of data are refused") {
  constexpr std::uint64_t kMiB = 1 << 20;
  Harness h;
  h.settings.tree.memtable_size = 16 * kMiB;
  h.settings.wal_segment_size = 16 * kMiB;
  h.files->set_capacity(64 * kMiB);  // 3.2 MiB of it must stay free
  h.open();
  h.advance(1000);
  h.settle();
  for (int i = 0; i < 4000; ++i) h.put(0, key_of(i), std::string(1000, 'v'));
  REQUIRE(h.db->tree_info(0)->frozen_memtables == 0);
  h.advance(100);
  h.put(0, "room", "enough");
  auto ballast = std::move(h.files->create("ballast")).value();
  const std::string others(h.files->disk_space("data")->free_bytes - 5 * kMiB, 'x');
  REQUIRE(ballast->append(others).is_ok());
  for (int i = 0; i < 3; ++i) h.advance(100);
  WriteBatch batch;
  batch.put(0, "more", "data");
  CHECK(h.db->commit(batch).code() == Code::kNoSpace);
  h.del(0, key_of(0));
  REQUIRE(h.db->flush(0).is_ok());
  CHECK(h.get(0, key_of(1)) == std::string(1000, 'v'));
}

}  // namespace TEST_FILE
