// Tests that a checkpoint opens with the database's contents, independent of later changes to the database. An unfinished
// checkpoint must not open.
#include <engine/verify_checkpoint.h>

#include <algorithm>

#include "engine/db/layouts.h"
#include "engine/db/model.h"
#include "support/long_run.h"

namespace TEST_FILE {

using namespace ebbtide;

/// Opens the directory `dir` of `h`'s files as a separate, writable database.
std::unique_ptr<Db> open_at(Harness& h, const std::string& dir) {
  Settings settings = h.settings;
  settings.dir = dir;
  Components components;
  components.fs = h.files.get();
  components.clock = &h.clock;
  components.background = &h.pool;
  components.seed = 1;
  auto opened = Db::open(settings, components);
  INFO(opened.status().to_string());
  REQUIRE(opened.is_ok());
  return std::move(opened).value();
}

std::string value_of(Db& db, DatabaseId database, Bytes key) {
  Found found;
  const ReadView view = db.lease(database);
  const Status status = view.get({key, hash_key(key)}, &found);
  return status.is_ok() ? std::string(found.value) : status.to_string();
}

std::string value_for(int i, int round) { return std::to_string(round) + std::string(80, static_cast<char>('a' + i % 26)); }

void fill(Harness& h, int round, int keys = 3000) {
  for (int i = 0; i < keys; ++i) {
    h.put(static_cast<DatabaseId>(i % 2), key_of(i), value_for(i, round));
    if (i % 500 == 0) h.settle();
  }
}

void check_round(Db& db, int round, int keys = 3000) {
  for (int i = 0; i < keys; i += 7) REQUIRE(value_of(db, static_cast<DatabaseId>(i % 2), key_of(i)) == value_for(i, round));
  REQUIRE(*db.count(0, {}) == static_cast<std::uint64_t>(keys / 2));
  for (const DatabaseId d : {0u, 1u}) {
    const auto report = db.verify(d);
    for (const std::string& error : report->errors) FAIL_CHECK(error);
  }
}

constexpr int kMortals = 800;
constexpr Millis kLife = 60'000;
bool dies(int i) { return i % 2 == 0; }

Settings with_tiles() {
  Settings s = Harness::small();
  s.tree.memtable_size = s.tree.file_size = 1 << 20;
  s.tree.stamp = StampMode::kExpireTime;
  s.tree.pages_per_tile = 8;
  return s;
}

/// Fills the database: every second key expires after kLife, in pages of such keys only.
void fill_with_mortals(Harness& h) {
  const Millis now = h.db->now();
  for (int i = 0; i < kMortals; ++i) h.put(0, key_of(i), value_for(i, 1) + value_for(i, 2), now + (dies(i) ? 1 : 1000) * kLife);
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
}

void check_mortals(Db& db) {
  const auto report = db.verify(0);  // reads all expected pages
  REQUIRE(report.is_ok());
  for (const std::string& error : report->errors) FAIL_CHECK(error);
  REQUIRE(*db.count(0, {}) == kMortals / 2);
  for (int i = 0; i < kMortals; ++i) {
    if (!dies(i)) REQUIRE(value_of(db, 0, key_of(i)) == value_for(i, 1) + value_for(i, 2));
  }
}

TEST_CASE("checkpoint opens with the database's contents: later writes to one do not reach the other") {
  Harness h;
  h.open();
  fill(h, 1);
  h.settle();
  fill(h, 2);  // tables, memtables and several segments of the log
  const auto report = h.db->checkpoint("copy");
  INFO(report.status().to_string());
  REQUIRE(report.is_ok());
  CHECK(report->seq == h.db->visible_seq());
  CHECK(report->bytes_copied < h.settings.wal_segment_size);  // the current segment was copied; the other files are links
  CHECK(report->bytes > 4 * report->bytes_copied);

  fill(h, 3);
  REQUIRE(h.db->compact(0, {}).is_ok());
  REQUIRE(h.db->compact(1, {}).is_ok());
  h.settle();
  {
    auto copy = open_at(h, "copy");
    check_round(*copy, 2);
    WriteBatch batch;
    batch.put(0, "only here", "x");
    REQUIRE(copy->commit(batch).is_ok());
    REQUIRE(copy->compact(0, {}).is_ok());
    h.settle();
    CHECK(value_of(*copy, 0, "only here") == "x");
  }
  check_round(*h.db, 3);
  h.reopen();
  check_round(*h.db, 3);
  auto copy = open_at(h, "copy");
  CHECK(value_of(*copy, 0, "only here") == "x");
}

TEST_CASE("checkpoint of tables of any size: it makes two links per table, and neither reads nor copies their bytes") {
  struct Cost {
    std::size_t tables = 0, links = 0, other_calls = 0;
    std::uint64_t bytes = 0;
  };
  const auto cost_of = [](int keys, std::uint64_t memtable_size) {
    Settings settings = Harness::small();
    settings.tree.memtable_size = settings.tree.file_size = memtable_size;
    Harness h(settings);
    h.open();
    fill(h, 1, keys);
    for (const DatabaseId d : {0u, 1u}) REQUIRE(h.db->flush(d).is_ok());
    h.settle();
    Cost cost;
    cost.tables = h.paths(".data").size();
    h.watch->on_call = [&cost](const FileCall& call) {
      if (call.path.ends_with(".data") || call.path.ends_with(".meta")) {
        CHECK(file_op_name(call.op) == std::string("link"));
        ++cost.links;
      } else if (!call.path.ends_with(".wal")) {  // the last segment is copied up to its current end
        ++cost.other_calls;
      }
    };
    const auto report = h.db->checkpoint("copy");
    h.watch->on_call = nullptr;
    INFO(report.status().to_string());
    REQUIRE(report.is_ok());
    CHECK(cost.links == 2 * cost.tables);
    CHECK(report->bytes_copied <= settings.wal_segment_size);
    cost.bytes = report->bytes - report->bytes_copied;
    return cost;
  };
  const Cost few = cost_of(2000, 64 << 10), many = cost_of(20'000, 64 << 10), large = cost_of(20'000, 512 << 10);
  CHECK(many.tables > 5 * few.tables);
  CHECK(large.tables < many.tables / 2);
  CHECK(large.bytes > many.bytes / 2);
  CHECK(many.other_calls == few.other_calls);
  CHECK(large.other_calls == few.other_calls);
}

TEST_CASE("databases were emptied and swapped: a checkpoint has the change, even before the manifest has it") {
  Harness h;
  h.open();
  fill(h, 1);
  WriteBatch batch;
  batch.flush_database(0);
  batch.swap_databases(1, 2);
  h.write(batch);
  h.put(0, "after", "x");
  REQUIRE(h.db->checkpoint("copy").is_ok());  // the checkpoint is made before any background work
  auto copy = open_at(h, "copy");
  CHECK(*copy->count(0, {}) == 1);
  CHECK(*copy->count(1, {}) == 0);
  CHECK(*copy->count(2, {}) == 1500);
}

TEST_CASE("database is empty: its checkpoint opens") {
  Harness h;
  h.open();
  REQUIRE(h.db->checkpoint("copy").is_ok());
  CHECK(*open_at(h, "copy")->count(0, {}) == 0);
}

TEST_CASE("checkpoint's target has files, or is in the data directory: no checkpoint is made") {
  Harness h;
  h.open();
  h.put(0, "a", "1");
  for (const char* inside : {"data", "data/copy", "./data//copy", "data/./copy/"}) {
    INFO(inside);
    CHECK(h.db->checkpoint(inside).status().code() == Code::kInvalidArgument);
  }
  CHECK(h.db->checkpoint("").status().code() == Code::kInvalidArgument);
  REQUIRE(h.db->checkpoint("data2").is_ok());
  CHECK(h.db->checkpoint("data2").status().code() == Code::kExists);
  CHECK(*open_at(h, "data2")->count(0, {}) == 1);  // the refusal changed nothing
  REQUIRE(h.files->create_dir("empty").is_ok());
  h.faults->inject({.path_has = "empty/MANIFEST"});
  CHECK(h.db->checkpoint("empty").status().code() == Code::kIoError);
  CHECK(h.files->list("empty")->empty());  // the empty directory stays
  CHECK(h.db->checkpoint("empty").is_ok());
}

TEST_CASE("file system has no links: the checkpoint consists of copies") {
  Harness h;
  h.open();
  fill(h, 1);
  REQUIRE(h.db->flush(0).is_ok());
  REQUIRE(h.db->flush(1).is_ok());
  h.faults->inject({.ops = ops_of(FileOp::kLink), .sticky = true});
  const auto report = h.db->checkpoint("copy");
  REQUIRE(report.is_ok());
  CHECK(report->bytes == report->bytes_copied);
  h.db.reset();
  check_round(*open_at(h, "copy"), 1);
}

TEST_CASE("crash at any operation of a checkpoint: the database is complete, and so is the checkpoint if it opens") {
  // The layout changes with each operation and with each round of a long run: trees of many small files and of few large ones.
  std::uint64_t turn = round_of_seeds();
  for (const CrashMode mode : {CrashMode::kNothing, CrashMode::kRandom, CrashMode::kEverything}) {
    std::uint64_t ended = 0;  // consecutive turns without a k-th operation
    for (std::uint64_t k = 1 + first_of_every_nth(); ended < small_policies().size(); k += every_nth(), ++turn) {
      INFO("crash before operation " << k << ", mode " << static_cast<int>(mode) << ", " << text_of(layout_of(turn)));
      Settings settings = Harness::small();
      settings.tree.memtable_size = 16 << 10;
      settings.tree.file_size = 64 << 10;
      layout_of(turn).set(&settings.tree);
      Harness h(settings);
      h.open();
      fill(h, 1, 1200);
      h.settle();
      REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
      std::unique_ptr<MemoryFileSystem> left;
      bool armed = true;
      h.faults->before_nth(k, kMutatingOps, [&] {
        if (armed) left = h.files->crash_clone(first_seed() + k, mode);
      });
      REQUIRE(h.db->checkpoint("copy").is_ok());
      armed = false;
      const bool finished = left == nullptr;
      ended = finished ? ended + 1 : 0;
      if (finished) left = h.files->crash_clone(first_seed() + k, mode);
      h.abandon(std::move(left));
      const bool complete = h.files->exists("copy/CURRENT");
      if (complete) check_round(*open_at(h, "copy"), 1, 1200);
      CHECK((!finished || complete));
      const auto names = h.files->list("copy");
      if (!complete && names.is_ok() && !names->empty()) {  // an empty directory is a new database
        h.settings.dir = "copy";
        CHECK(h.try_open().code() == Code::kCorruption);
        h.drop();
        h.settings.dir = "data";
      }
      h.open();
      check_round(*h.db, 1, 1200);
    }
    ++turn;  // each operation has another layout in each mode
  }
}

TEST_CASE("checkpoint writes its manifest: the names of all its other files are durable before") {
  Harness h;
  h.open();
  fill(h, 1, 1200);
  h.settle();
  REQUIRE(h.files->create_dir("copy").is_ok());
  REQUIRE(h.files->sync_dir(".").is_ok());
  std::vector<std::string> made, durable;
  h.watch->on_call = [&](const FileCall& call) {
    if (call.op != FileOp::kCreate || !call.path.starts_with("copy/MANIFEST")) return;
    made = h.files->list("copy").value();
    durable = h.files->crash_clone(1, CrashMode::kNothing)->list("copy").value();
  };
  REQUIRE(h.db->checkpoint("copy").is_ok());
  h.watch->on_call = nullptr;
  std::sort(made.begin(), made.end());
  std::sort(durable.begin(), durable.end());
  CHECK(made.size() > 2);
  CHECK(durable == made);  // a manifest alone would count as a new database whose first start was interrupted
}

TEST_CASE("file operation of a checkpoint fails: the checkpoint leaves no files, and the database works") {
  for (std::uint64_t n = 1;; ++n) {
    INFO("error at operation " << n);
    Harness h;
    h.open();
    fill(h, 1, 1200);
    h.settle();
    REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
    h.faults->inject({.nth = n});
    const auto report = h.db->checkpoint("copy");
    const bool met = h.faults->failures() > 0;
    h.faults->clear_faults();
    if (!report.is_ok()) {
      CHECK(h.files->list("copy").status().is_not_found());
      REQUIRE(h.db->checkpoint("copy").is_ok());
    }
    h.put(0, "more", "x");
    CHECK(value_of(*h.db, 0, "more") == "x");
    h.db.reset();
    CHECK(*open_at(h, "copy")->count(1, {}) == 600);
    if (!met) break;
  }
}

TEST_CASE("checkpoint is made during a page drop, or before its punch: linked files keep the bytes that the checkpoint needs") {
  const bool before_edit = GENERATE(true, false);
  Harness h(with_tiles());
  h.open();
  fill_with_mortals(h);
  std::map<std::string, std::string> tables;
  for (const std::string& path : h.paths(".data")) tables[path] = read_file(*h.files, path).value();
  bool made = false;
  const auto make = [&] {
    made = true;
    REQUIRE(h.db->checkpoint("copy").is_ok());
  };
  if (before_edit) {
    h.watch->on_call = [&](const FileCall& call) {  // the drop writes new metadata of its first table
      if (!made && call.op == FileOp::kCreate && call.path.ends_with(".meta")) make();
    };
  }
  h.advance(kLife + 1000);
  while (h.db->stats().pages_dropped_full == 0) REQUIRE(h.pool.run_one());
  h.watch->on_call = nullptr;
  if (!before_edit) make();
  REQUIRE(made);
  REQUIRE(h.db->stats().reclaimed_bytes_punched == 0);
  for (int i = 0; i < 3; ++i) {
    h.settle();
    h.advance(2000);
  }
  CHECK(h.db->stats().reclaimed_bytes_punched == 0);
  for (const auto& [path, bytes] : tables) {
    INFO(path);
    CHECK_FALSE(h.files->exists(path));  // a table that could not be punched was rewritten
    CHECK(read_file(*h.files, "copy" + path.substr(path.find('/'))).value() == bytes);
  }
  check_mortals(*h.db);
  check_mortals(*open_at(h, "copy"));
}

TEST_CASE("pages are dropped while a checkpoint copies their table: they are punched after the copy") {
  Harness h(with_tiles());
  h.open();
  fill_with_mortals(h);
  h.faults->inject({.ops = ops_of(FileOp::kLink), .sticky = true});
  bool dropped = false;
  h.watch->on_call = [&](const FileCall& call) {
    if (dropped || call.op != FileOp::kCreate || !call.path.starts_with("copy/") || !call.path.ends_with(".data")) return;
    dropped = true;
    h.advance(kLife + 1000);
    h.settle();
    h.advance(2000);
    h.settle();
    CHECK(h.db->stats().pages_dropped_full > 0);
    CHECK(h.db->stats().reclaimed_bytes_punched == 0);
  };
  const auto report = h.db->checkpoint("copy");
  h.watch->on_call = nullptr;
  INFO(report.status().to_string());
  REQUIRE(report.is_ok());
  REQUIRE(dropped);
  for (int i = 0; i < 3; ++i) {
    h.advance(2000);
    h.settle();
  }
  CHECK(h.db->stats().reclaimed_bytes_punched > 0);
  check_mortals(*h.db);
  check_mortals(*open_at(h, "copy"));
}

/// Calls `meanwhile` once, in the middle of copying the first log segment into "copy".
void while_log_is_copied(Harness& h, const std::function<void()>& meanwhile) {
  h.faults->inject({.ops = ops_of(FileOp::kLink), .sticky = true});  // another file system
  auto called = std::make_shared<bool>(false);
  h.watch->on_call = [called, meanwhile](const FileCall& call) {
    if (*called || call.op != FileOp::kWrite || !call.path.starts_with("copy/") || !call.path.ends_with(".wal")) return;
    *called = true;
    meanwhile();
  };
}

Settings small_segments() {
  Settings settings = Harness::small();
  settings.wal_segment_size = 64 << 10;
  return settings;
}

TEST_CASE("checkpoint copies the log: writes, flushes and merges go on meanwhile, and no segment is removed") {
  Harness h(small_segments());
  h.open();
  h.put(2, "keeps", "the log");
  for (int i = 0; i < 3000; ++i) h.put(static_cast<DatabaseId>(i % 2), key_of(i), value_for(i, 1));
  const std::vector<std::string> segments = h.paths(".wal");
  REQUIRE(segments.size() >= 3);
  bool copied = false;
  while_log_is_copied(h, [&] {
    copied = true;
    const std::uint64_t flushes = h.db->stats().flushes;
    fill(h, 2);
    for (const DatabaseId d : {0u, 1u, 2u}) REQUIRE(h.db->flush(d).is_ok());
    h.settle();
    REQUIRE(h.db->compact(0, {}).is_ok());
    h.advance(2000);
    h.settle();
    CHECK(h.db->stats().flushes > flushes);
    CHECK(h.db->stats().compactions > 0);
    for (const std::string& path : segments) CHECK(h.files->exists(path));
  });
  const auto report = h.db->checkpoint("copy");
  h.watch->on_call = nullptr;
  INFO(report.status().to_string());
  REQUIRE(report.is_ok());
  REQUIRE(copied);
  for (const std::string& path : segments) CHECK_FALSE(h.files->exists(path));
  check_round(*h.db, 2);
  const auto copy = open_at(h, "copy");
  check_round(*copy, 1);
  CHECK(value_of(*copy, 2, "keeps") == "the log");
}

TEST_CASE("log segments that a checkpoint copies would outlive a deadline: the checkpoint fails") {
  Settings settings = small_segments();
  settings.tree.delete_deadline = 60'000;
  Harness h(settings);
  h.open();
  h.put(0, "secret", "0123456789abcdef");
  for (int i = 0; i < 3000; ++i) h.put(0, key_of(i), value_for(i, 1));
  h.del(0, "secret");
  const std::vector<std::string> segments = h.paths(".wal");
  bool copied = false;
  while_log_is_copied(h, [&] {
    copied = true;
    for (int i = 0; i < 56; ++i) {
      h.put(1, "other", "1");  // if no thread ends it, a segment ends with the next write
      h.advance(1000);
      h.settle();
    }
    CHECK(h.files->exists(segments.front()));
  });
  const auto report = h.db->checkpoint("copy");
  h.watch->on_call = nullptr;
  REQUIRE(copied);
  CHECK(report.status().code() == Code::kRevoked);
  CHECK(report.status().to_string().find("deadline") != std::string::npos);
  CHECK(h.files->list("copy").status().is_not_found());
  for (const std::string& path : segments) {
    INFO(path);
    CHECK_FALSE(h.files->exists(path));
  }
  for (int i = 0; i < 10; ++i) {
    h.put(1, "other", "1");
    h.advance(1000);
    h.settle();
  }
  for (const std::string& warning : h.events.warnings) UNSCOPED_INFO(warning);
  for (const std::string& path : h.paths(".wal")) UNSCOPED_INFO(path);
  CHECK(h.db->stats().deadlines_missed_load == 0);
  REQUIRE(h.db->checkpoint("copy").is_ok());  // the checkpoint is done in time
}

TEST_CASE("log fails while a checkpoint copies it: the checkpoint opens with every write from before") {
  Harness h(small_segments());
  h.open();
  for (int i = 0; i < 3000; ++i) h.put(static_cast<DatabaseId>(i % 2), key_of(i), value_for(i, 1));
  while_log_is_copied(h, [&] {
    h.lose_write();
    h.heal();
  });
  const auto report = h.db->checkpoint("copy");
  h.watch->on_call = nullptr;
  INFO(report.status().to_string());
  REQUIRE(report.is_ok());
  h.db.reset();
  check_round(*open_at(h, "copy"), 1);
}

TEST_CASE("operation is committed but not logged yet: the checkpoint has the operation") {
  Harness h;
  h.open();
  h.put(0, "logged", "1");
  WriteBatch batch;
  batch.put(0, "committed", "2");
  REQUIRE(h.db->commit(batch).is_ok());
  const auto report = h.db->checkpoint("copy");
  REQUIRE(report.is_ok());
  CHECK(report->seq == batch.last_seq());
  const auto copy = open_at(h, "copy");
  CHECK(value_of(*copy, 0, "logged") == "1");
  CHECK(value_of(*copy, 0, "committed") == "2");
}

TEST_CASE("database is emptied while a checkpoint copies the log: the checkpoint has the database's tables") {
  Harness h(small_segments());
  h.open();
  fill(h, 1, 1200);
  for (const DatabaseId d : {0u, 1u}) REQUIRE(h.db->flush(d).is_ok());
  h.settle();
  h.put(1, "more", "1");
  WriteBatch batch;
  batch.flush_database(0);
  h.write(batch);
  const std::size_t before = h.paths(".data").size();
  bool copied = false;
  while_log_is_copied(h, [&] {
    copied = true;
    h.settle();  // the manifest gets the change
    h.advance(2000);
    h.settle();
  });
  const auto report = h.db->checkpoint("copy");
  h.watch->on_call = nullptr;
  INFO(report.status().to_string());
  REQUIRE(report.is_ok());
  REQUIRE(copied);
  h.advance(2000);
  h.settle();
  const std::vector<std::string> tables = h.paths(".data");
  CHECK(std::count_if(tables.begin(), tables.end(), [](const auto& path) { return path.starts_with("data/"); }) <
        static_cast<std::ptrdiff_t>(before));
  const auto verified = verify_checkpoint(h.files.get(), "copy", [](std::uint64_t) { return true; });
  REQUIRE(verified.is_ok());
  for (const std::string& error : verified->errors) FAIL_CHECK(error);
  const auto copy = open_at(h, "copy");
  CHECK(*copy->count(0, {}) == 0);
  CHECK(*copy->count(1, {}) == 601);
}

TEST_CASE("checkpoint copies log segments with deletes not yet due: the checkpoint succeeds") {
  Settings settings = small_segments();
  settings.tree.delete_deadline = 3'600'000;
  Harness h(settings);
  h.open();
  h.put(0, "deleted", "1");
  for (int i = 0; i < 3000; ++i) h.put(0, key_of(i), value_for(i, 1));
  h.del(0, "deleted");
  const std::vector<std::string> segments = h.paths(".wal");
  while_log_is_copied(h, [&] {
    REQUIRE(h.db->flush(0).is_ok());
    for (int i = 0; i < 60; ++i) {
      h.put(1, "other", "1");
      h.advance(1000);
      h.settle();
    }
    CHECK(h.files->exists(segments.front()));
  });
  const auto report = h.db->checkpoint("copy");
  h.watch->on_call = nullptr;
  INFO(report.status().to_string());
  CHECK(report.is_ok());
  CHECK_FALSE(h.files->exists(segments.front()));
}

}  // namespace TEST_FILE
