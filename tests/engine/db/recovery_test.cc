// Tests of states that a crash or a fault leaves between two steps of the engine, each made on purpose; and of files written by
// an earlier version.
#include <cstdlib>

#include "engine/db/harness.h"
#include "io/file_names.h"
#include "support/keys.h"
#include "support/long_run.h"
#include "wal/log_format.h"

namespace TEST_FILE {

using namespace ebbtide;

std::string read_all(MemoryFileSystem& fs, const std::string& path) {
  auto file = fs.open(path);
  REQUIRE(file.is_ok());
  std::string bytes(*fs.file_size(path), '\0');
  REQUIRE((*file)->read(0, bytes.size(), bytes.data()).is_ok());
  return bytes;
}

void write_all(MemoryFileSystem& fs, const std::string& path, Bytes bytes) {
  auto file = fs.create(path);
  REQUIRE(file.is_ok());
  REQUIRE((*file)->append(bytes).is_ok());
  REQUIRE((*file)->close().is_ok());
}

bool ends_with(const std::string& text, const char* end) { return text.ends_with(end); }

TEST_CASE("power loss brings back a removed log segment: open does not replay the segment") {
  Settings settings = Harness::small();
  settings.tree.memtable_size = 4 << 20;
  settings.wal_segment_size = 64 << 10;
  Harness h(settings);
  h.open();
  // Makes two full segments and an empty one.
  for (int i = 0; h.paths(".wal").size() < 3; ++i) h.put(0, "key" + std::to_string(i), std::string(1000, 'v'));
  const std::string oldest = h.paths(".wal").front();
  const std::string bytes = read_all(*h.files, oldest);
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  REQUIRE(h.paths(".wal").size() == 1);
  auto left = h.files->crash_clone(1, CrashMode::kNothing);
  (void)left->unlink(oldest);
  write_all(*left, oldest, bytes);
  for (const std::string& path : left->tree()) {
    if (ends_with(path, ".wal") && path != oldest && path != h.paths(".wal").front()) REQUIRE(left->unlink(path).is_ok());
  }
  h.abandon(std::move(left));
  h.open();
  CHECK(h.get(0, "key0") == std::string(1000, 'v'));
}

TEST_CASE("power loss undoes an unsynced FLUSHDB: the tree's log segments still exist, and the database has its keys") {
  Settings settings = Harness::small();
  settings.tree.memtable_size = 4 << 20;
  settings.wal_segment_size = 64 << 10;
  Harness h(settings);
  h.open();
  h.put(0, "kept", "1");
  h.settle();
  for (int i = 0; h.paths(".wal").size() < 3; ++i) h.put(1, "key" + std::to_string(i), std::string(1000, 'v'));
  h.put(2, "k", "v");  // makes the manifest store a tree, and with it the mapping up to here
  h.settle();
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  h.put(1, "last", "x");
  // Database 0 is emptied while the log is synced for the flush of database 1; the FLUSHDB is never synced.
  bool done = false;
  h.watch->on_call = [&](const FileCall& call) {
    if (done || call.op != FileOp::kSync || !ends_with(call.path, ".wal")) return;
    done = true;
    WriteBatch batch;
    batch.flush_database(0);
    REQUIRE(h.db->commit(batch).is_ok());
  };
  REQUIRE(h.db->flush(1).is_ok());
  REQUIRE(done);
  h.watch->on_call = nullptr;
  h.crash(CrashMode::kNothing, 1);
  h.open();
  CHECK(h.get(0, "kept") == "1");
}

TEST_CASE("fsync is everysec: a write is durable at the first tick after a second, even without later writes") {
  Harness h;
  REQUIRE(h.settings.fsync == FsyncMode::kEverySecond);
  h.open();
  h.put(0, "first", "1");
  h.clock.advance(1001);
  h.put(0, "second", "2");  // the next sync is due a second after this write's sync
  const SeqNum last = h.put(0, "third", "3");
  h.clock.advance(999);
  h.db->write_log();
  REQUIRE(h.db->stats().synced_seq < last);
  h.clock.advance(2);
  h.db->write_log();
  CHECK(h.db->stats().synced_seq == last);
  h.crash(CrashMode::kNothing, 1);
  h.open();
  CHECK(h.get(0, "first") == "1");
  CHECK(h.get(0, "second") == "2");
  CHECK(h.get(0, "third") == "3");
}

TEST_CASE("crash at any step of healing a failed log: the directory opens, with a prefix of the writes") {
  const CrashMode mode = GENERATE(CrashMode::kNothing, CrashMode::kRandom, CrashMode::kEverything);
  bool more = true;
  for (std::uint64_t k = 1; more; ++k) {
    INFO("crash before operation " << k << ", mode " << static_cast<int>(mode));
    Harness h;
    h.open();
    h.put(0, "a", "1");
    h.put(1, "b", "2");
    REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
    h.settle();
    FileFault fault;
    fault.ops = ops_of(FileOp::kWrite);
    fault.path_has = ".wal";
    h.faults->inject(fault);
    WriteBatch batch;
    batch.put(0, "c", "3");
    REQUIRE(h.db->commit(batch).is_ok());
    batch.clear();
    batch.flush_database(1);
    REQUIRE(h.db->commit(batch).is_ok());
    batch.clear();
    batch.put(2, "d", "4");
    REQUIRE(h.db->commit(batch).is_ok());
    h.db->write_log();
    CHECK_FALSE(h.db->write_status().is_ok());
    std::unique_ptr<MemoryFileSystem> left;
    h.faults->before_nth(k, kMutatingOps, [&] { left = h.files->crash_clone(first_seed() + k, mode); });
    for (int i = 0; i < 4; ++i) {
      h.advance(2500);
      h.settle();
    }
    REQUIRE(h.db->write_status().is_ok());
    more = left != nullptr;
    if (left == nullptr) left = h.files->crash_clone(first_seed() + k, mode);
    h.abandon(std::move(left));
    h.open();
    CHECK(h.get(0, "a") == "1");
    // The state has all operations or a prefix: c, then the emptied database 1, then d.
    const bool c = h.get(0, "c") == "3", emptied = h.get(1, "b") == "(absent)", d = h.get(2, "d") == "4";
    CHECK((c || !emptied));
    CHECK((emptied || !d));
    CHECK((more || d));
  }
}

TEST_CASE("tree is emptied while its flush writes tables: the tables are removed") {
  Harness h;
  h.open();
  h.put(0, "secret", "1");
  h.settle();
  bool done = false;
  h.watch->on_call = [&](const FileCall& call) {
    if (done || call.op != FileOp::kSyncDir) return;
    done = true;  // the tables are built, and the edit is not committed yet
    WriteBatch batch;
    batch.flush_database(0);
    h.write(batch);
    h.settle();
  };
  (void)h.db->flush(0);
  REQUIRE(done);
  h.watch->on_call = nullptr;
  h.settle();
  h.advance(1000);
  h.settle();
  CHECK(h.get(0, "secret") == "(absent)");
  CHECK(h.paths(".data").empty());
}

TEST_CASE("edit of a flush fails: its table stays, as the manifest may name it, until the database has healed") {
  Harness h;
  h.open();
  h.put(0, "k", "1");
  h.settle();
  FileFault fault;
  fault.path_has = "MANIFEST";
  fault.sticky = true;
  h.faults->inject(fault);
  CHECK_FALSE(h.db->flush(0).is_ok());
  CHECK(h.paths(".data").size() == 1);  // the edit may be on disk
  for (int i = 0; i < 5; ++i) {
    h.advance(2500);
    h.settle();
  }
  h.faults->clear_faults();
  for (int i = 0; i < 3; ++i) {
    h.advance(2500);
    h.settle();
  }
  CHECK(h.db->write_status().is_ok());
  CHECK(h.paths(".data").size() == 1);
  CHECK(h.get(0, "k") == "1");
  h.reopen();
  CHECK(h.get(0, "k") == "1");
}

TEST_CASE("only FLUSHDBs are written: the log keeps at most three segments") {
  Settings settings = Harness::small();
  settings.wal_segment_size = 64 << 10;
  Harness h(settings);
  h.open();
  for (int i = 0; i < 20'000; ++i) {
    WriteBatch batch;
    batch.flush_database(0);
    h.write(batch);
    if (i % 100 == 0) h.settle();
  }
  h.settle();
  CHECK(h.paths(".wal").size() <= 3);
}

TEST_CASE("log has failed and was restarted: an operation counts as durable only once the new segment has it") {
  Harness h;
  h.open();
  h.put(0, "a", "1");
  const SeqNum lost = h.lose_write();
  h.heal();
  CHECK(h.db->durable_seq() == lost);
  WriteBatch batch;
  batch.put(0, "c", "3");
  REQUIRE(h.db->commit(batch).is_ok());
  CHECK(h.db->durable_seq() < batch.last_seq());
  h.db->write_log();
  CHECK(h.db->durable_seq() == batch.last_seq());
}

TEST_CASE("wall clock is set back before a crash: engine time does not go back") {
  Harness h;
  h.open();
  for (int i = 0; i < 60; ++i) h.advance(1000);
  const Millis last = h.db->now();
  h.clock.set_wall(h.clock.wall_ms() - 3'600'000);
  h.crash(CrashMode::kNothing, 1);
  h.open();
  CHECK(h.db->now() >= last);
}

TEST_CASE("wall clock jumps forward by more than a day: engine time does not follow it, and this is logged once") {
  Harness h;
  h.open();
  h.advance(1000);
  CHECK_FALSE(h.db->stats().clock_step_refused);
  const Millis before = h.db->now(), wall = h.clock.wall_ms();
  h.clock.set_wall(wall + 3ull * 24 * 3600 * 1000);
  for (int i = 0; i < 20; ++i) h.advance(1000);
  CHECK(h.db->now() <= before + 25'000);
  REQUIRE(h.events.warnings.size() == 1);
  CHECK(h.events.heard("the wall clock went forward"));
  CHECK(h.db->stats().clock_step_refused);
  h.clock.set_wall(wall + 20'000);
  h.advance(1000);
  CHECK_FALSE(h.db->stats().clock_step_refused);
  h.clock.set_wall(wall + 3ull * 24 * 3600 * 1000);
  h.advance(1000);
  CHECK(h.events.warnings.size() == 2);
}

TEST_CASE("engine time did not follow a jump of the wall clock: after a crash, open is refused until the clock is right") {
  constexpr Millis kDay = 24ull * 3600 * 1000;
  Harness h;
  h.open();
  h.advance(1000);
  const Millis before = h.db->now(), wall = h.clock.wall_ms();
  h.clock.set_wall(wall + 60 * kDay);
  for (int i = 0; i < 20; ++i) h.advance(1000);
  h.crash(CrashMode::kNothing, 1);
  const Status refused = h.try_open();
  CHECK(refused.to_string().find("--accept-clock") != std::string::npos);
  h.clock.set_wall(wall + 20'000);
  h.open();
  CHECK(h.db->now() >= before + 20'000);
  CHECK(h.db->now() <= before + 40'000);
}

TEST_CASE("all data is flushed before a clean stop: open replays nothing, and removes temporary files") {
  Harness h;
  h.open();
  for (int i = 0; i < 10; ++i) h.put(0, "key" + std::to_string(i), "v");
  REQUIRE(h.db->flush(0).is_ok());
  const std::string temporary = "data/left" + std::string(kTemporarySuffix);
  REQUIRE(h.files->create(temporary).is_ok());
  h.reopen();
  CHECK(h.db->tree_info(0)->memtable_entries == 0);
  CHECK_FALSE(h.files->exists(temporary));
  CHECK(h.get(0, "key9") == "v");
}

TEST_CASE("operations that were never synced are replayed after a kill: once synced again, they survive a power loss") {
  Harness h;
  h.open();
  h.put(0, "key", "v");
  h.faults->inject({.ops = ops_of(FileOp::kSync), .sticky = true});
  h.drop();
  auto written = std::move(h.files);  // the data is not durable, but readable until a power loss
  h.use(std::move(written));
  h.open();
  REQUIRE(h.get(0, "key") == "v");
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  h.crash(CrashMode::kNothing, 1);
  h.open();
  CHECK(h.get(0, "key") == "v");
}

TEST_CASE("power loss comes after open: the manifest of the previous run does not come back") {
  Harness h;
  h.open();
  h.put(0, "key", "v");
  REQUIRE(h.db->flush(0).is_ok());
  h.reopen();
  const auto left = h.files->crash_clone(1, CrashMode::kNothing);
  std::size_t manifests = 0;
  for (const std::string& path : left->tree()) manifests += path.starts_with("data/MANIFEST-") ? 1 : 0;
  CHECK(manifests == 1);
}

TEST_CASE("unlink of a table's file fails at first: the file is removed later, without a restart") {
  Harness h;
  h.open();
  for (int i = 0; i < 100; ++i) h.put(0, "key" + std::to_string(i), "deleted");
  REQUIRE(h.db->flush(0).is_ok());
  FileFault fault;
  fault.ops = ops_of(FileOp::kUnlink);
  fault.sticky = true;
  h.faults->inject(fault);
  WriteBatch batch;
  batch.flush_database(0);
  h.write(batch);
  h.settle();
  h.advance(1000);
  h.settle();
  CHECK(h.paths(".data").size() == 1);
  CHECK(h.events.heard("cannot remove a file"));
  h.faults->clear_faults();
  for (int i = 0; i < 15; ++i) {
    h.advance(1000);
    h.settle();
  }
  CHECK(h.paths(".data").empty());
  CHECK(h.paths(".meta").empty());
}

// Tree 0 has operations only in the log. Tree 1 was flushed later, so the manifest relies on larger seqs.
TEST_CASE("log segment is missing: open fails, even if tables have later operations") {
  Settings settings = Harness::small();
  settings.tree.memtable_size = 4 << 20;
  settings.wal_segment_size = 64 << 10;
  Harness h(settings);
  h.open();
  for (int i = 0; h.paths(".wal").size() < 4; ++i) h.put(0, "key" + std::to_string(i), std::string(1000, 'v'));
  h.put(1, "k", "v");
  REQUIRE(h.db->flush(1).is_ok());
  h.settle();
  const std::vector<std::string> segments = h.paths(".wal");
  REQUIRE(segments.size() >= 4);
  const std::size_t gone = GENERATE(0, 1, 2, 99);  // 99: all segments
  h.crash(CrashMode::kEverything, 1);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (i == gone || gone == 99) REQUIRE(h.files->unlink(segments[i]).is_ok());
  }
  const Status status = h.try_open();
  INFO(status.to_string());
  CHECK(status.code() == Code::kCorruption);
}

TEST_CASE("log is cut within its first record: open fails if tables rely on the record's operations") {
  Harness h;
  h.open();
  for (int i = 0; i < 100; ++i) h.put(i % 2, "key" + std::to_string(i), "v");
  REQUIRE(h.db->flush(0).is_ok());  // the other half is only in the log
  h.settle();
  const bool closed = GENERATE(false, true);
  if (closed) {
    REQUIRE(h.db->close().is_ok());
    h.drop();
  } else {
    h.crash(CrashMode::kEverything, 1);
  }
  const std::string log = h.paths(".wal").front(), bytes = read_all(*h.files, log);
  for (const std::size_t length : {kLogHeaderBytes, kLogHeaderBytes + 1, kLogHeaderBytes + 30}) {
    REQUIRE(h.files->unlink(log).is_ok());
    write_all(*h.files, log, Bytes(bytes).substr(0, length));
    const Status status = h.try_open();
    INFO(status.to_string());
    CHECK(status.code() == Code::kCorruption);
    h.db.reset();
  }
  // A segment that begins after these operations may have lost its first record in a power loss.
  REQUIRE(h.files->unlink(log).is_ok());
  write_all(*h.files, log, bytes);
  h.open();
  REQUIRE(h.db->flush(0).is_ok());
  REQUIRE(h.db->flush(1).is_ok());
  h.settle();
  h.reopen();
  for (const std::string& path : h.paths(".wal")) REQUIRE(h.files->file_size(path).value() >= kLogHeaderBytes);
  h.put(0, "more", "1");
  h.crash(CrashMode::kEverything, 1);
  const std::string last = h.paths(".wal").back(), more = read_all(*h.files, last);
  REQUIRE(h.files->unlink(last).is_ok());
  write_all(*h.files, last, Bytes(more).substr(0, kLogHeaderBytes + 5));
  h.open();
  CHECK(h.get(0, "key0") == "v");
  CHECK(h.get(1, "key1") == "v");
  CHECK(h.get(0, "more") == "(absent)");
}

// --- files of an earlier version, kept in testdata/format_1

const std::string kKept = EBBTIDE_TEST_DIR "/testdata/format_1";

Settings kept_settings() {
  Settings settings = Harness::small();
  settings.databases = 3;
  settings.tree.memtable_size = 256 << 10;
  settings.tree.stamp = StampMode::kExplicit;
  settings.tree.delete_deadline = 0;
  TreeSettings tiles = settings.tree;
  tiles.pages_per_tile = 8;
  tiles.compression = Compression::kLz4;
  tiles.compression_last_level = Compression::kZstd;
  settings.overrides[1] = tiles;
  return settings;
}

std::string kept_value(int i) { return "value " + std::to_string(i) + std::string(static_cast<std::size_t>(i % 40), '.'); }

/// Writes every kind of entry into tables, and every kind of operation into the log after them.
void write_kept(Harness& h) {
  for (const DatabaseId d : {0u, 1u}) {
    for (int i = 0; i < 200; ++i) {
      WriteBatch batch;
      batch.put(d, "key" + std::to_string(1000 + i), kept_value(i),
                {static_cast<DeleteKey>(i), i % 10 == 0 ? Millis{4'000'000'000'000} : 0});
      h.write(batch);
    }
    if (d == 1) h.put(d, "large", std::string(100'000, 'L'));
    demand_ok(h.db->flush(d), "flush");
    h.del(d, "key1005");
    h.del_range(d, "key1020", "key1030");
    demand_ok(h.db->flush(d), "flush");
  }
  h.put(0, "in the log", "1");
  h.del(0, "key1006");
  h.del_range(1, "key1040", "key1050");
  WriteBatch batch;
  batch.delete_stamps(0, 100, 120);
  batch.flush_database(2);
  batch.put(2, "alone", "2");
  batch.swap_databases(1, 2);
  h.write(batch);
}

void check_kept(Harness& h) {
  for (int i = 0; i < 200; ++i) {
    const std::string key = "key" + std::to_string(1000 + i);
    INFO(key);
    const bool gone = i == 5 || (20 <= i && i < 30);
    CHECK(h.get(0, key) == (gone || i == 6 || (100 <= i && i < 120) ? "(absent)" : kept_value(i)));
    CHECK(h.get(2, key) == (gone || (40 <= i && i < 50) ? "(absent)" : kept_value(i)));
  }
  CHECK(h.get(0, "in the log") == "1");
  CHECK(h.get(1, "alone") == "2");
  CHECK(h.get(2, "large") == std::string(100'000, 'L'));
  CHECK(h.stamp(0, "key1007") == 7);
  for (DatabaseId d = 0; d < 3; ++d) h.verify(d);
}

/// Copies every file of a directory.
void carry(FileSystem& from, const std::string& from_dir, FileSystem& to, const std::string& to_dir) {
  const auto names = from.list(from_dir);
  demand_ok(names.status(), "list");
  for (const std::string& name : *names) {
    if (name == kLockFileName || name == kReserveFileName) continue;
    auto file = to.create(join_path(to_dir, name));
    demand_ok(file.status(), "create");
    demand_ok((*file)->append(*read_file(from, join_path(from_dir, name))), "append");
  }
}

// With EBBTIDE_REWRITE, writes the files again into an empty directory, for a new version of the format beside the old one.
void open_kept(Harness& h, const std::string& kept, void (*write)(Harness&)) {
  FileSystem& disk = *posix_file_system();
  if (std::getenv("EBBTIDE_REWRITE") != nullptr) {
    h.open();
    write(h);
    demand_ok(h.db->close(), "close");
    h.drop();
    for (const std::string& dir : {parent_path(kept), kept}) demand_ok(disk.create_dir(dir), "create directory");
    carry(*h.files, h.settings.dir, disk, kept);
    h.use(std::make_unique<MemoryFileSystem>());
  }
  demand_ok(h.files->create_dir(h.settings.dir), "create directory");
  carry(disk, kept, *h.files, h.settings.dir);
  for (const char* suffix : {".data", ".meta", ".wal"}) REQUIRE_FALSE(h.paths(suffix).empty());
  h.open();
}

TEST_CASE("files of testdata have format 1: the database opens and has all their data") {
  Harness h(kept_settings());
  open_kept(h, kKept, write_kept);
  check_kept(h);
  REQUIRE(h.db->compact(0, {}).is_ok());
  REQUIRE(h.db->compact(2, {}).is_ok());
  check_kept(h);
  h.reopen();
  check_kept(h);
}

// --- with pending deletes: dropped and replaced pages, records, births, debts, expiries

constexpr Millis kKeptDeadline = 3'600'000, kMinute = 60'000;

Settings kept_deletes_settings() {
  Settings settings = Harness::small();
  settings.databases = 2;
  settings.tree.stamp = StampMode::kExplicit;
  settings.tree.pages_per_tile = 16;
  settings.tree.delete_deadline = kKeptDeadline;
  settings.overrides[1] = settings.tree;
  settings.overrides[1].pages_per_tile = 1;
  settings.overrides[1].policy = {"tiering", {}};
  return settings;
}

/// Returns a value that contains its key and version, so that files can be searched for it.
std::string marker(DatabaseId d, int i, const char* version) {
  return "<" + std::to_string(d) + " " + version + " " + std::to_string(i) + ">";
}
DeleteKey kept_stamp(int i) { return static_cast<DeleteKey>(i * 7919 % 1000); }

/// Says if a text must still be in files at the end of the test.
enum class Kept { kStays, kGone, kExpires };
Kept kept_fate(DatabaseId d, int i) {
  const DeleteKey stamp = kept_stamp(i);
  if (d == 0 && (stamp < 200 || (600 <= stamp && stamp < 700) || (800 <= stamp && stamp < 810))) return Kept::kGone;
  if (i % 50 == 7 || (100 <= i && i < 120)) return Kept::kGone;
  return i % 50 == 9 ? Kept::kExpires : Kept::kStays;
}

void write_kept_deletes(Harness& h) {
  const auto erase = [&](DeleteKey lo, DeleteKey hi) {
    WriteBatch batch;
    batch.delete_stamps(0, lo, hi);
    h.write(batch);
  };
  const Millis expiry = h.db->stats().engine_time + 50 * kMinute;
  for (const DatabaseId d : {0u, 1u}) {
    for (int i = 0; i < 800; ++i) {
      WriteBatch batch;
      batch.put(d, key_of(i), marker(d, i, "value") + std::string(80, '.'), {kept_stamp(i), i % 50 == 9 ? expiry : 0});
      h.write(batch);
    }
    demand_ok(h.db->compact(d, {}), "compact");
  }
  // First: pages that are punched and replaced.
  erase(0, 200);
  demand_ok(h.db->flush(0), "flush");
  for (int i = 0; i < 20; ++i) {
    h.advance(kMinute);
    h.settle();
  }
  demand(h.db->stats().pages_dropped_full > 0 && h.db->stats().pages_dropped_partial > 0, "no pages are dropped");
  demand(h.db->stats().reclaimed_bytes_punched > 0, "no page is punched");
  // Then: a record whose pages still exist, tombstones above hidden versions, and debts of rewritten keys.
  h.advance(10 * kMinute);
  erase(600, 700);
  for (const DatabaseId d : {0u, 1u}) {
    for (int i = 0; i < 800; ++i) {
      if (i % 50 == 7) h.del(d, key_of(i));
    }
    h.del_range(d, key_of(100), key_of(120));
    for (int i = 100; i < 110; ++i) h.put(d, key_of(i), marker(d, i, "again"));
    demand_ok(h.db->flush(d), "flush");
  }
  // Last: deletes that only the log has.
  h.advance(10 * kMinute);
  erase(800, 810);
  h.del(1, key_of(0));
}

void check_kept_deletes(Harness& h, bool expired) {
  for (const DatabaseId d : {0u, 1u}) {
    for (int i = 0; i < 800; ++i) {
      const Kept fate = kept_fate(d, i);
      const bool gone = fate == Kept::kGone || (fate == Kept::kExpires && expired) || (d == 1 && i == 0);
      const std::string value = marker(d, i, "value") + std::string(80, '.');
      demand_same(h.get(d, key_of(i)),
                  100 <= i && i < 110 ? marker(d, i, "again")
                  : gone              ? "(absent)"
                                      : value,
                  marker(d, i, "?"));
    }
    h.verify(d);
  }
}

TEST_CASE("files have format 1 and pending deletes: the database opens, and the deletes keep their deadlines", "[deadlines]") {
  Harness h(kept_deletes_settings());
  open_kept(h, EBBTIDE_TEST_DIR "/testdata/format_1_deletes", write_kept_deletes);
  check_kept_deletes(h, false);
  // The pages of the first delete are dropped, but not all names of their keys. The second database had its deletes half an hour
  // later.
  const Millis born = h.db->tree_info(0)->oldest_obligation;
  CHECK(h.db->tree_info(0)->oldest_obligation_deadline == born + kKeptDeadline);
  CHECK(h.db->tree_info(1)->oldest_obligation == born + 30 * kMinute);
  CHECK(h.db->tree_info(1)->oldest_obligation_deadline == born + 30 * kMinute + kKeptDeadline);
  CHECK(h.db->tree_info(0)->records == 2);
  const auto left = [&](DatabaseId d, const char* version) {
    std::string bytes;
    for (const std::string& path : h.paths("")) {
      if (!path.ends_with('/')) bytes += *read_file(*h.files, path);
    }
    int found = 0;
    for (int i = 0; i < 800; ++i) {
      if (kept_fate(d, i) == Kept::kGone) found += bytes.find(marker(d, i, version)) != std::string::npos;
    }
    return found;
  };
  CHECK(left(0, "value") > 0);
  CHECK(left(1, "value") > 0);
  while (h.db->stats().engine_time < born + 2 * kKeptDeadline) {
    h.advance(kMinute / 6);
    h.settle();
  }
  check_kept_deletes(h, true);
  for (const DatabaseId d : {0u, 1u}) CHECK(left(d, "value") == 0);
  const Stats stats = h.db->stats();
  CHECK(stats.deadlines_missed_load + stats.deadlines_missed_clock + stats.deadlines_missed_down == 0);
}

// --- the first version with compact entries and with debts of puts

constexpr int kKeptSets = 100, kSmallerInTables = 20, kSmaller = 30;

Settings kept_collections_settings() {
  Settings settings = Harness::small();
  settings.databases = 1;
  settings.tree.delete_deadline = kKeptDeadline;
  return settings;
}

std::string kept_set(int i, const char* version) { return marker(0, i, version) + std::string(80, '.'); }

void put_set(Harness& h, int i, const char* version, bool debt) {
  WriteBatch batch;
  batch.put(0, key_of(i), kept_set(i, version), {.kind = EntryKind::kCompact, .debt = debt});
  h.write(batch);
}

/// Writes small collections that lose an item. The smaller versions are in a newer table, or only in the log.
void write_kept_collections(Harness& h) {
  for (int i = 0; i < kKeptSets; ++i) put_set(h, i, "whole", false);
  demand_ok(h.db->compact(0, {}), "compact");
  h.advance(10 * kMinute);
  for (int i = 0; i < kSmallerInTables; ++i) put_set(h, i, "rest", true);
  demand_ok(h.db->flush(0), "flush");
  h.advance(10 * kMinute);
  for (int i = kSmallerInTables; i < kSmaller; ++i) put_set(h, i, "rest", true);
}

void check_kept_collections(Harness& h) {
  for (int i = 0; i < kKeptSets; ++i) {
    Found found;
    const std::string key = key_of(i);
    INFO(key);
    REQUIRE(h.db->lease(0).get({key, hash_key(key)}, &found).is_ok());
    CHECK(found.kind == EntryKind::kCompact);
    CHECK(found.value == kept_set(i, i < kSmaller ? "rest" : "whole"));
    CHECK(h.db->lease(0).may_have_collection({key, hash_key(key)}));
  }
  h.verify(0);
}

TEST_CASE("files have format 2, compact entries and delete debts: the database opens, and the debts keep their deadlines",
          "[deadlines]") {
  Harness h(kept_collections_settings());
  open_kept(h, EBBTIDE_TEST_DIR "/testdata/format_2_collections", write_kept_collections);
  check_kept_collections(h);
  const Millis born = h.db->tree_info(0)->oldest_obligation;
  CHECK(h.db->tree_info(0)->oldest_obligation_deadline == born + kKeptDeadline);
  const auto left = [&](int from, int to) {
    std::string bytes;
    for (const std::string& path : h.paths("")) {
      if (!path.ends_with('/')) bytes += *read_file(*h.files, path);
    }
    int found = 0;
    for (int i = from; i < to; ++i) found += bytes.find(marker(0, i, "whole")) != std::string::npos;
    return found;
  };
  CHECK(left(0, kSmaller) == kSmaller);
  while (h.db->stats().engine_time < born + kKeptDeadline) {
    h.advance(kMinute / 6);
    h.settle();
  }
  CHECK(left(0, kSmallerInTables) == 0);
  while (h.db->stats().engine_time < born + 10 * kMinute + kKeptDeadline) {
    h.advance(kMinute / 6);
    h.settle();
  }
  CHECK(left(0, kSmaller) == 0);
  CHECK(left(kSmaller, kKeptSets) == kKeptSets - kSmaller);
  CHECK(h.db->tree_info(0)->oldest_obligation == 0);
  check_kept_collections(h);
  h.reopen();
  check_kept_collections(h);
  const Stats stats = h.db->stats();
  CHECK(stats.deadlines_missed_load + stats.deadlines_missed_clock + stats.deadlines_missed_down == 0);
}

TEST_CASE("database heals: it flushes one memtable after another, the oldest first, of any tree") {
  Harness h;
  h.open();
  h.put(1, "first", "1");  // database 1 has the older tree
  REQUIRE(h.db->flush(1).is_ok());
  h.put(0, "a", "older value");
  h.put(1, "b", "newer value");
  h.faults->inject({.ops = ops_of(FileOp::kWrite), .sticky = true, .code = Code::kNoSpace, .path_has = ".data"});
  for (const DatabaseId d : {0u, 1u}) CHECK_FALSE(h.db->flush(d).is_ok());
  h.faults->clear_faults();
  std::vector<std::string> flushed;
  h.watch->on_call = [&](const FileCall& call) {
    if (call.op != FileOp::kSync || call.path.find("MANIFEST-") == std::string::npos) return;
    const std::string bytes = h.table_bytes();
    std::string values;
    for (const char* value : {"older", "newer"}) values += bytes.find(value) == std::string::npos ? "" : value;
    if (!values.empty()) flushed.push_back(values);
  };
  h.heal();
  h.watch->on_call = nullptr;
  REQUIRE(flushed.size() >= 2);
  CHECK(flushed.front() == "older");
  CHECK(flushed.back() == "oldernewer");
}

TEST_CASE("new database is made: the parent of its directory is synced once, and not when it is reopened") {
  Harness h;
  int synced = 0;
  h.watch->on_call = [&](const FileCall& call) { synced += call.op == FileOp::kSyncDir && call.path != "data" ? 1 : 0; };
  h.open();
  CHECK(synced == 1);
  h.reopen();
  CHECK(synced == 1);
}

}  // namespace TEST_FILE
