// Tests of page drops in a database: reads, dropped data that is still on disk, waits, and crashes at every step.
#include <algorithm>
#include <map>
#include <set>

#include "engine/db/data_reads.h"
#include "engine/db/harness.h"
#include "engine/db/layouts.h"
#include "engine/io/rooms.h"
#include "io/file_names.h"
#include "support/long_run.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr Millis kLife = 60'000;

Settings drop_settings(std::uint32_t h) {
  Settings s = Harness::small();
  s.fsync = FsyncMode::kAlways;
  s.tree.stamp = StampMode::kExpireTime;
  s.tree.pages_per_tile = h;
  return s;
}

std::string marker_of(int i) { return "<dead value " + std::to_string(i) + ">"; }
bool dies(int i) { return i % 2 == 0; }

// Writes one run of keys. Every second key expires at the same time, and the others much later.
void fill(Harness& h, int keys) {
  const Millis now = h.db->now();
  for (int i = 0; i < keys; ++i) {
    const std::string value = (dies(i) ? marker_of(i) : "live " + std::to_string(i)) + std::string(140, '.');
    h.put(0, key_of(i), value, dies(i) ? now + kLife : now + 1000 * kLife);
  }
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
}

void let_expire(Harness& h) {
  h.advance(kLife + 1000);
  h.settle();
  h.advance(2000);  // does the work that waited for a reader's end
  h.settle();
}

// Returns the number of `keys` expired values that table files still have.
int markers_left(Harness& h, int keys) {
  int found = 0;
  const std::string tables = h.table_bytes();
  for (int i = 0; i < keys; ++i) found += dies(i) && tables.find(marker_of(i)) != std::string::npos ? 1 : 0;
  return found;
}

std::uint64_t allocated(Harness& h) {
  std::uint64_t bytes = 0;
  for (const std::string& path : h.paths(".data")) bytes += h.files->allocated_bytes(path).value();
  return bytes;
}

void check_contents(Harness& h, int keys) {
  for (int i = 0; i < keys; ++i) {
    INFO(key_of(i));
    const std::string got = h.get(0, key_of(i));
    REQUIRE(got == (dies(i) ? "(absent)" : "live " + std::to_string(i) + std::string(140, '.')));
  }
  h.verify(0);
}

TEST_CASE("expired values fill pages: the pages are dropped unread, and their bytes are punched", "[drops]") {
  for (const std::uint32_t tile : {2u, 8u, 16u}) {
    INFO("h " << tile);
    Harness h(drop_settings(tile));
    h.open();
    fill(h, 400);
    REQUIRE(markers_left(h, 400) == 200);
    const std::uint64_t before = allocated(h);
    std::uint64_t data_reads = 0;
    h.watch->on_call = [&](const FileCall& call) {
      if (reads_behind_header(call)) data_reads += call.length;
    };
    let_expire(h);
    h.watch->on_call = nullptr;
    const Stats stats = h.db->stats();
    CHECK(data_reads == 0);
    CHECK(stats.pages_dropped_full > 0);
    CHECK(stats.pages_dropped_partial == 0);
    CHECK(stats.reclaimed_bytes_punched > before / 4);
    CHECK(allocated(h) == before - stats.reclaimed_bytes_punched);
    CHECK(markers_left(h, 400) < 200 / 4);  // merges will remove entries that share a page with live values
    check_contents(h, 400);
    h.reopen();
    h.settle();
    check_contents(h, 400);
  }
}

TEST_CASE("table has only expired values: the whole table is removed", "[drops]") {
  Harness h(drop_settings(4));
  h.open();
  const Millis now = h.db->now();
  for (int i = 0; i < 200; ++i) h.put(0, key_of(i), marker_of(i) + std::string(140, '.'), now + kLife + static_cast<Millis>(i));
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  REQUIRE(h.paths(".data").size() == 1);
  let_expire(h);
  CHECK(h.paths(".data").empty());
  CHECK(h.paths(".meta").empty());
  CHECK(h.db->stats().files_dropped == 1);
  CHECK(h.db->stats().reclaimed_bytes_unlinked > 0);
  CHECK(h.get(0, key_of(3)) == "(absent)");
  h.reopen();
  CHECK(h.get(0, key_of(3)) == "(absent)");
}

TEST_CASE("reader has the table's older metadata: pages are punched only after the reader ends", "[drops]") {
  Harness h(drop_settings(8));
  h.open();
  fill(h, 400);
  const std::uint64_t before = allocated(h);
  {
    const ReadView view = h.db->lease(0);
    auto it = h.db->iterate(view, {});
    it->seek_to_first();
    REQUIRE(it->valid());
    let_expire(h);
    CHECK(h.db->stats().pages_dropped_full > 0);
    CHECK(h.db->stats().reclaimed_bytes_punched == 0);
    CHECK(allocated(h) == before);
    // The reader's pages must be unchanged.
    int walked = 0;
    for (; it->valid(); it->next()) ++walked;
    CHECK(it->status().is_ok());
    CHECK(walked == 400);
    let_expire(h);
    CHECK(allocated(h) == before);
    check_contents(h, 400);  // new readers have the new description
  }
  h.advance(2000);
  h.settle();
  h.advance(2000);
  h.settle();
  CHECK(h.db->stats().reclaimed_bytes_punched > 0);
  CHECK(allocated(h) < before);
  check_contents(h, 400);
}

TEST_CASE("power loss between a drop and its punch: the next start punches, even with nothing else to drop", "[drops]") {
  Harness h(drop_settings(8));
  h.open();
  fill(h, 400);
  auto view = std::make_unique<ReadView>(h.db->lease(0));
  let_expire(h);
  REQUIRE(h.db->stats().pages_dropped_full > 0);
  REQUIRE(h.db->stats().reclaimed_bytes_punched == 0);
  auto left = h.files->crash_clone(1, CrashMode::kNothing);
  view.reset();
  h.abandon(std::move(left));
  h.open();
  const std::uint64_t before = allocated(h);
  for (int i = 0; i < 3; ++i) {
    h.settle();
    h.advance(2000);
  }
  CHECK(h.db->stats().pages_dropped_full == 0);
  CHECK(h.db->stats().reclaimed_bytes_punched > 0);
  CHECK(allocated(h) < before);
  check_contents(h, 400);
}

TEST_CASE("command waits for pages: these are punched only after the command has read them", "[drops]") {
  Harness h(drop_settings(8));
  h.open();
  fill(h, 400);
  const std::uint64_t before = allocated(h);
  MissSet misses;
  {
    PassGuard guard(*h.db);
    Found found;
    const std::string key = key_of(4);
    const ReadView view = h.db->view(0, h.db->now(), ReadMode::kResident, &misses);
    REQUIRE(view.get({key, hash_key(key)}, &found).is_not_resident());
  }
  let_expire(h);
  CHECK(h.db->stats().pages_dropped_full > 0);
  CHECK(allocated(h) == before);
  REQUIRE(h.db->fetch(&misses, [] {}));  // reads a page that was dropped meanwhile
  misses = {};
  h.advance(2000);
  h.settle();
  CHECK(allocated(h) < before);
  check_contents(h, 400);
}

TEST_CASE("delete by stamp is purged at once: only metadata and edge pages are read, and nothing is merged", "[drops]") {
  constexpr int kKeys = 4000;
  // A range from the smallest stamp on has one edge per tile, a range in the middle has two.
  const bool middle = GENERATE(false, true);
  const int lo = middle ? kKeys / 2 : 0, hi = lo + kKeys / 7;
  Settings s = drop_settings(middle ? 32 : 8);
  s.tree.stamp = StampMode::kExplicit;
  s.tree.delete_deadline = GENERATE(Millis{0}, Millis{24} * 3600 * 1000);
  Harness h(s);
  h.open();
  const auto dead = [&](int i) { return i * 7919 % kKeys >= lo && i * 7919 % kKeys < hi; };
  for (int i = 0; i < kKeys; ++i) {
    WriteBatch batch;
    batch.put(0, key_of(i), marker_of(i) + std::string(240, '.'), {static_cast<DeleteKey>(i * 7919 % kKeys), 0});
    h.write(batch);
  }
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  const Stats before = h.db->stats();
  // The job reads the old metadata file once. It does not read its output again to open or punch it, or to renew its names.
  std::map<std::string, int> metadata_reads;
  std::size_t metadata_files = 0;
  h.watch->on_call = [&](const FileCall& call) {
    if (call.op == FileOp::kCreate && call.path.ends_with(".meta")) ++metadata_files;
    if (call.op == FileOp::kRead && call.offset == 0 && call.path.ends_with(".meta")) ++metadata_reads[call.path];
  };
  WriteBatch batch;
  batch.delete_stamps(0, static_cast<DeleteKey>(lo), static_cast<DeleteKey>(hi));
  h.write(batch);
  SeqNum up_to = 0;
  const PurgeTicket ticket{h.db->purge_ticket(&up_to).born_by, h.db->tree_info(0)->tree};
  REQUIRE(h.db->purge_now(ticket).is_ok());
  for (int i = 0; i < 40 && !h.db->purge_status(ticket)->done; ++i) {
    h.advance(500);
    h.settle();
    h.db->write_log();
  }
  h.watch->on_call = nullptr;
  CHECK(h.db->purge_status(ticket)->done);
  CHECK_FALSE(metadata_reads.empty());
  for (const auto& [path, reads] : metadata_reads) {
    INFO(path);
    CHECK(reads == 1);
  }
  const std::vector<std::string> in_use = h.paths(".meta");
  CHECK(std::none_of(in_use.begin(), in_use.end(), [&](const std::string& path) { return metadata_reads.count(path) != 0; }));
  CHECK(metadata_reads.size() <= in_use.size());
  CHECK(metadata_files <= in_use.size());
  const Stats after = h.db->stats();
  CHECK(after.pages_dropped_full > before.pages_dropped_full);
  CHECK(after.pages_dropped_partial > before.pages_dropped_partial);
  CHECK(after.compaction_bytes_read - before.compaction_bytes_read < before.table_live_bytes / 4);
  for (const ReasonInfo& reason : after.merges_by_reason) {
    INFO(reason.reason);
    if (reason.reason == "deadline") CHECK(reason.jobs == 0);
  }
  for (int i = 0; i < kKeys; ++i) CHECK((h.get(0, key_of(i)) == "(absent)") == dead(i));
  for (const std::string& path : h.paths("")) {
    if (path.back() == '/') continue;
    const std::string bytes = read_file(*h.files, path).value();
    for (int i = 0; i < kKeys; ++i) {
      if (!dead(i)) continue;
      INFO(path << " " << i);
      REQUIRE(bytes.find(marker_of(i)) == std::string::npos);
      REQUIRE(bytes.find(key_of(i)) == std::string::npos);
    }
  }
}

TEST_CASE("dropped pages cannot be punched for a while: the delete's ticket stays pending until they are", "[drops]") {
  Settings s = drop_settings(8);
  s.tree.stamp = StampMode::kExplicit;
  s.tree.delete_deadline = Millis{24} * 3600 * 1000;
  Harness h(s);
  h.open();
  for (int i = 0; i < 400; ++i) {
    WriteBatch batch;
    batch.put(0, key_of(i), marker_of(i) + std::string(140, '.'), {static_cast<DeleteKey>(i % 2), 0});
    h.write(batch);
  }
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  h.faults->inject({.ops = ops_of(FileOp::kPunchHole), .sticky = true});
  WriteBatch batch;
  batch.delete_stamps(0, 0, 1);
  h.write(batch);
  SeqNum up_to = 0;
  const PurgeTicket ticket{h.db->purge_ticket(&up_to).born_by, h.db->tree_info(0)->tree};
  h.clock.advance(2);
  REQUIRE(h.db->purge_now(ticket).is_ok());
  const auto pass = [&](int steps) {
    for (int i = 0; i < steps && !h.db->purge_status(ticket)->done; ++i) {
      h.advance(500);
      h.settle();
      h.db->write_log();
    }
  };
  pass(40);
  CHECK(h.db->stats().pages_dropped_full > 0);
  CHECK(h.db->stats().reclaimed_bytes_punched == 0);
  CHECK(markers_left(h, 400) > 0);
  CHECK_FALSE(h.db->purge_status(ticket)->done);
  h.faults->clear_faults();
  pass(40);
  CHECK(h.db->purge_status(ticket)->done);
  CHECK(markers_left(h, 400) == 0);
}

TEST_CASE("file has a second name (a hard link): its table is rewritten instead of punched", "[drops]") {
  Harness h(drop_settings(8));
  h.open();
  fill(h, 400);
  const std::string data = h.paths(".data").front();
  const std::string bytes = read_file(*h.files, data).value();
  REQUIRE(h.files->create_dir("checkpoint").is_ok());
  REQUIRE(h.files->link(data, "checkpoint/copy").is_ok());
  let_expire(h);
  CHECK(h.db->stats().reclaimed_bytes_punched == 0);
  CHECK(read_file(*h.files, "checkpoint/copy").value() == bytes);
  CHECK_FALSE(h.files->exists(data));
  CHECK(markers_left(h, 400) == 0);
  check_contents(h, 400);
  h.reopen();
  check_contents(h, 400);
}

TEST_CASE("file system cannot punch: tables are rewritten", "[drops]") {
  Harness h(drop_settings(8));
  h.open();
  FileFault fault;
  fault.ops = ops_of(FileOp::kPunchHole);
  fault.sticky = true;
  fault.code = Code::kUnsupported;
  h.faults->inject(fault);
  fill(h, 400);
  let_expire(h);
  CHECK(h.events.heard("cannot punch holes"));
  CHECK(h.db->stats().reclaimed_bytes_punched == 0);
  CHECK(markers_left(h, 400) == 0);
  check_contents(h, 400);
}

TEST_CASE("sync after a punch fails: the sync is not retried, and the table is rewritten", "[drops]") {
  Harness h(drop_settings(8));
  h.open();
  fill(h, 400);
  FileFault fault;
  fault.ops = ops_of(FileOp::kSync);
  fault.path_has = ".data";
  h.faults->inject(fault);
  let_expire(h);
  h.advance(10'000);
  h.settle();
  CHECK(h.faults->failures() == 1);
  CHECK(markers_left(h, 400) == 0);
  check_contents(h, 400);
  h.crash(CrashMode::kNothing, 1);
  h.open();
  h.settle();
  CHECK(markers_left(h, 400) == 0);
  check_contents(h, 400);
}

TEST_CASE("sync after a punch fails and the table cannot be rewritten: the sync is still not retried", "[drops]") {
  Harness h(drop_settings(8));
  h.open();
  fill(h, 400);
  h.faults->inject({.ops = ops_of(FileOp::kSync), .path_has = ".data"});
  h.advance(kLife + 1000);
  while (h.db->stats().pages_dropped_full == 0) REQUIRE(h.pool.run_one());
  h.db->pause_compactions();
  for (int i = 0; i < 3; ++i) {
    h.settle();
    h.advance(10'000);
  }
  CHECK(h.faults->failures() == 1);
  CHECK(h.db->stats().reclaimed_bytes_punched == 0);  // a second sync would have reported success
  h.db->resume_compactions();
  h.settle();
  CHECK(markers_left(h, 400) == 0);
  check_contents(h, 400);
}

TEST_CASE("crash at every k-th operation of a drop and its punch: no live entry is lost, and all dead ones are purged",
          "[drops]") {
  const std::uint64_t step = number_from_env("EBBTIDE_CRASH_STEP", 1);
  std::uint64_t turn = round_of_seeds();  // chooses the layout, one for each operation
  std::set<FileOp> struck;                // operations done in any turn, since the k-th operation differs by layout
  for (const std::uint32_t tile : {1u, 8u}) {
    const int keys = tile == 1 ? 120 : 200;
    // Either a range of keys expires, so that whole tiles are dropped, or every second key, page by page. Some keys have older
    // versions below, which do not expire and must not come back.
    const auto expires = [&](int i) { return tile == 1 ? i < 60 : dies(i); };
    const auto has_older = [&](int i) { return expires(i) && i < keys / 4; };
    const auto older_marker = [](int i) { return "<older value " + std::to_string(i) + ">"; };
    const std::string filler(140, '.');
    for (const CrashMode mode : {CrashMode::kNothing, CrashMode::kRandom, CrashMode::kEverything}) {
      std::uint64_t ended = 0;  // consecutive turns without a k-th operation
      for (std::uint64_t k = 1; ended < small_policies().size(); k += step, ++turn) {
        Layout layout = layout_of(turn);
        layout.pages_per_tile = tile;
        INFO("crash before operation " << k << ", mode " << static_cast<int>(mode) << ", " << text_of(layout));
        Settings settings = drop_settings(tile);
        layout.set(&settings.tree);
        settings.tree.delete_deadline = 1000;  // pages are dropped as soon as possible
        Harness h(settings);
        h.open();
        for (int i = 0; i < keys; ++i) {
          if (has_older(i)) h.put(0, key_of(i), older_marker(i) + filler);
        }
        REQUIRE(h.db->flush(0).is_ok());
        h.settle();
        const Millis now = h.db->now();
        for (int i = 0; i < keys; ++i) {
          h.put(0, key_of(i), (expires(i) ? marker_of(i) : "live") + filler, now + (expires(i) ? kLife : 1000 * kLife));
        }
        REQUIRE(h.db->flush(0).is_ok());
        h.settle();
        const auto check = [&] {
          for (int i = 0; i < keys; ++i) REQUIRE(h.get(0, key_of(i)) == (expires(i) ? "(absent)" : "live" + filler));
          h.verify(0);
        };
        std::unique_ptr<MemoryFileSystem> left;
        std::uint64_t calls = 0;
        h.watch->on_call = [&](const FileCall& call) {
          if ((ops_of(call.op) & kMutatingOps) == 0 || ++calls != k) return;
          struck.insert(call.op);
          left = h.files->crash_clone(first_seed() + k, mode);
        };
        let_expire(h);
        h.watch->on_call = nullptr;
        ended = left == nullptr ? ended + 1 : 0;
        if (left == nullptr) left = h.files->crash_clone(first_seed() + k, mode);
        h.abandon(std::move(left));
        h.open();
        check();
        let_expire(h);
        check();
        const std::string tables = h.table_bytes();
        for (int i = 0; i < keys; ++i) {
          if (!expires(i)) continue;
          REQUIRE(tables.find(marker_of(i)) == std::string::npos);
          REQUIRE(tables.find(older_marker(i)) == std::string::npos);
        }
      }
      ++turn;
    }
  }
  for (const FileOp op : {FileOp::kPunchHole, FileOp::kCreate, FileOp::kSyncDir, FileOp::kUnlink}) {
    if (step == 1) CHECK(struck.count(op) == 1);
  }
}

TEST_CASE("n-th file operation of a page drop fails: no live entry is lost", "[drops]") {
  for (std::uint64_t n = 1; n < 40; ++n) {
    INFO("error at " << n);
    Harness h(drop_settings(8));
    h.open();
    fill(h, 200);
    FileFault fault;
    fault.nth = n;
    h.faults->inject(fault);
    let_expire(h);
    h.faults->clear_faults();
    for (int i = 0; i < 4; ++i) {
      h.advance(6000);
      h.settle();
    }
    check_contents(h, 200);
    CHECK(markers_left(h, 200) < 60);
    h.crash(CrashMode::kNothing, n);
    h.open();
    h.settle();
    check_contents(h, 200);
  }
}

TEST_CASE("page drop on a real file system: the file's allocated disk space shrinks", "[drops]") {
  PosixRoom room;
  Settings settings = drop_settings(8);
  settings.dir = room.path("data");
  SimulatedClock clock;
  ManualPool pool;
  Listener events;
  Components components;
  components.clock = &clock;
  components.background = &pool;
  components.events = &events;
  auto db = Db::open(settings, components);
  INFO(db.status().to_string());
  REQUIRE(db.is_ok());
  const Millis now = (*db)->now();
  for (int i = 0; i < 800; ++i) {
    WriteBatch batch;
    batch.put(0, key_of(i), std::string(dies(i) ? "dead" : "live") + std::string(140, '.'),
              {kNoStamp, dies(i) ? now + kLife : now + 1000 * kLife});
    REQUIRE((*db)->commit(batch).is_ok());
  }
  (*db)->write_log();
  REQUIRE((*db)->flush(0).is_ok());
  pool.run_all();
  const auto blocks = [&] {
    std::uint64_t bytes = 0;
    const auto names = value_of(room.fs().list(settings.dir));
    for (const std::string& name : names) {
      if (name.ends_with(".data")) bytes += value_of(room.fs().allocated_bytes(join_path(settings.dir, name)));
    }
    return bytes;
  };
  const std::uint64_t before = blocks();
  for (int i = 0; i < 2; ++i) {
    clock.advance(kLife + 1000);
    (*db)->tick();
    pool.run_all();
  }
  const Stats stats = (*db)->stats();
  CHECK(stats.pages_dropped_full > 0);
  if (events.heard("cannot punch holes")) return;  // the file system of this temporary directory cannot
  CHECK(stats.reclaimed_bytes_punched > 0);
  // Some file systems need a block or two for the map of a file with holes.
  CHECK(blocks() <= before - stats.reclaimed_bytes_punched * 3 / 4);
  const auto report = (*db)->verify(0);
  CHECK(report->errors.empty());
}

}  // namespace TEST_FILE
