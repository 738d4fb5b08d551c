// Tests of large batches that are logged in pieces: other writes are logged in between, and no crash, fault or flush loses a part
// of a batch.
#include <engine/verify_checkpoint.h>

#include <algorithm>

#include "engine/db/staged.h"
#include "io/file_names.h"
#include "support/long_run.h"
#include "support/planted.h"
#include "wal/log_pieces.h"
#include "wal/log_reader.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr int kKeys = 300;

/// Returns settings with segments of 64 KiB, pieces of 128 bytes, and at most 4 KiB that wait for a sync.
Settings pieces_settings(FsyncMode fsync = FsyncMode::kAlways) {
  Settings s = Harness::small();
  s.wal_segment_size = 64 << 10;
  s.fsync = fsync;
  return s;
}

/// Returns a batch of about three segments.
WriteBatch large_batch(const std::string& value = "large") {
  WriteBatch batch;
  for (int i = 0; i < kKeys; ++i) batch.put(0, key_of(i), value + std::string(700, 'v'), {});
  return batch;
}

/// Returns the number of existing keys of the batch.
int large_keys(Harness& h, const std::string& value = "large") {
  int keys = 0;
  for (int i = 0; i < kKeys; ++i) keys += h.get(0, key_of(i)) == value + std::string(700, 'v') ? 1 : 0;
  return keys;
}

std::vector<FileNum> segments(Harness& h) {
  std::vector<FileNum> files;
  for (const std::string& path : h.paths(".wal")) files.push_back(std::stoull(path.substr(path.find('/') + 1)));
  return files;
}

/// Returns the contents of the log, record by record.
std::string records(Harness& h) {
  std::string kinds;
  for (const FileNum file : segments(h)) {
    const auto end = read_log(*h.files, "data", file, [&](const std::string& payload, std::uint64_t) {
      kinds += "gpc"[static_cast<int>(record_kind(payload))];
      return Status::ok();
    });
    demand_ok(end.status(), "read");
  }
  return kinds;
}

std::string files_with(Harness& h, const std::string& text) {
  std::string paths;
  for (const std::string& path : h.files->tree()) {
    const auto bytes = read_file(*h.files, path);
    if (bytes.is_ok() && bytes->find(text) != std::string::npos) paths += path + " ";
  }
  return paths;
}

/// Advances time past the deadline, after the deletes of all keys.
void pass_deadline(Harness& h, Millis time_ahead = 0) {
  for (Millis passed = 0; passed < h.settings.tree.delete_deadline + time_ahead; passed += 100) {
    h.advance(100);
    h.db->write_log();  // this ends segments
    h.settle();
  }
}

TEST_CASE("writes come between a batch's pieces: they are logged and synced before the batch's last piece", "[pieces]") {
  Harness h(pieces_settings());
  h.open();
  h.put(0, "first", "1");
  int writes = 0;
  bool durable = true;
  SeqNum small = 0;
  h.watch->on_call = [&](const FileCall& call) {
    if (call.op != FileOp::kWrite || !call.path.ends_with(".wal") || ++writes % 50 != 0) return;
    durable &= small == 0 || h.db->durable_seq() >= small;  // the small write before this one
    WriteBatch batch;
    batch.put(0, "small" + std::to_string(writes), "1", {});
    demand_ok(h.db->commit(batch), "commit");
    small = batch.last_seq();
  };
  const auto staged = stage(h, large_batch());
  h.watch->on_call = nullptr;
  CHECK(writes > 1000);
  CHECK(durable);
  CHECK(h.db->stats().logged_seq + 1 >= small);
  CHECK(large_keys(h) == 0);
  commit(h, *staged);
  const std::string kinds = records(h);
  CHECK(std::count(kinds.begin(), kinds.end(), 'c') == 1);
  CHECK(kinds.find("pgp") != std::string::npos);
  CHECK(kinds.substr(kinds.find('c') + 1).find('p') == std::string::npos);
  h.crash(CrashMode::kNothing, 1);
  h.open();
  CHECK(large_keys(h) == kKeys);
  for (int n = 50; n <= writes; n += 50) CHECK(h.get(0, "small" + std::to_string(n)) == "1");
}

TEST_CASE("batch is logged in pieces: at most 4 KiB and one piece are unsynced, and no segment grows past its size", "[pieces]") {
  Harness h(pieces_settings(GENERATE(FsyncMode::kAlways, FsyncMode::kEverySecond)));
  h.open();
  h.put(0, "first", "1");
  std::uint64_t unsynced = 0, most = 0;
  h.watch->on_call = [&](const FileCall& call) {
    if (!call.path.ends_with(".wal")) return;
    if (call.op == FileOp::kWrite) unsynced += call.length;
    if (call.op == FileOp::kSync) unsynced = 0;
    most = std::max(most, unsynced);
  };
  const auto staged = stage(h, large_batch());
  h.watch->on_call = nullptr;
  CHECK(most > (2 << 10));
  CHECK(most <= (4 << 10) + 256);
  for (const std::string& path : h.paths(".wal")) CHECK(h.files->file_size(path).value() <= (64 << 10) + 256);
}

/// Power is lost before the k-th mutating operation of a large batch between small ones. Returns false if there are fewer
/// operations.
bool crash_amid_pieces(std::uint64_t k, FsyncMode fsync, CrashMode mode) {
  Harness h(pieces_settings(fsync));
  h.open();
  h.put(0, "first", "1");
  demand_ok(h.db->wait_synced(h.db->visible_seq()), "sync");
  std::unique_ptr<MemoryFileSystem> left;
  SeqNum promised = 0, small = 0, large = 0;
  bool armed = true;
  h.faults->before_nth(k, kMutatingOps, [&] {
    if (!armed) return;
    left = h.files->crash_clone(k, mode);
    promised = fsync == FsyncMode::kAlways ? h.db->durable_seq() : h.db->stats().synced_seq;
  });
  int writes = 0;
  h.watch->on_call = [&](const FileCall& call) {
    if (call.op != FileOp::kWrite || !call.path.ends_with(".wal") || ++writes != 700) return;
    WriteBatch batch;
    batch.put(0, "small", "1", {});
    demand_ok(h.db->commit(batch), "commit");
    small = batch.last_seq();
  };
  const auto staged = stage(h, large_batch());
  large = commit(h, *staged);
  demand_ok(h.db->wait_synced(large), "sync");
  h.watch->on_call = nullptr;
  armed = false;
  if (left == nullptr) return false;
  h.abandon(std::move(left));
  h.open();
  const int keys = large_keys(h);
  demand(keys == 0 || keys == kKeys, "a part of a batch");
  demand(promised < large || keys == kKeys, "a synced batch is lost");
  demand(small == 0 || promised < small || h.get(0, "small") == "1", "a synced write is lost");
  demand(h.get(0, "first") == "1", "the first write is lost");
  h.put(0, "after", "1");
  const auto again = stage(h, large_batch("again"));
  commit(h, *again);
  h.reopen();
  demand(large_keys(h, "again") == kKeys && h.get(0, "after") == "1", "what came after is lost");
  h.verify(0);
  return true;
}

void crash_everywhere(FsyncMode fsync, CrashMode mode, std::uint64_t step) {
  std::uint64_t k = 1 + step * first_of_every_nth();
  while (crash_amid_pieces(k, fsync, mode)) k += step * every_nth();
  demand(k > 100, "the script is short");
}

TEST_CASE("crash before each operation of a batch in pieces: the database has all of the batch or nothing", "[pieces]") {
  for (const FsyncMode fsync : {FsyncMode::kAlways, FsyncMode::kEverySecond}) {
    crash_everywhere(fsync, CrashMode::kNothing, 7);
    crash_everywhere(fsync, CrashMode::kRandom, 11);
  }
  std::uint64_t k = 1 + 17 * first_of_every_nth();
  while (k < 4000 && crash_amid_pieces(k, FsyncMode::kNo, CrashMode::kRandom)) k += 17 * every_nth();
}

/// Commits batches whose pieces span several segments, and loses power once their commit record is synced.
void lose_power_after_switch() {
  for (int filler = 0; filler < 3000; filler += 300) {
    Harness h(pieces_settings());
    h.open();
    h.put(0, "first", std::string(static_cast<std::size_t>(filler), 'f'));
    commit(h, *stage(h, large_batch()));
    h.crash(CrashMode::kNothing, 1);
    demand(h.try_open().is_ok(), "does not open");
    demand(large_keys(h) == kKeys, "a synced batch is lost");
  }
}

/// The number of large values. They are too few for a memtable of their own, which would be flushed soon.
constexpr int kValues = 3;
WriteBatch large_values() {
  WriteBatch batch;
  for (int i = 0; i < kValues; ++i) batch.put(0, key_of(i), std::string(70'000, 'v'), {});
  return batch;
}
bool has_large_values(Harness& h) {
  for (int i = 0; i < kValues; ++i) {
    if (h.get(0, key_of(i)) != std::string(70'000, 'v')) return false;
  }
  return true;
}

/// Moves all writes before and after the batch to tables, but not the batch.
void advance_past_pieces(bool committed, bool replayed = false) {
  Harness h(pieces_settings());
  h.open();
  h.put(0, "first", "1");
  h.put(1, "first", "1");
  for (const DatabaseId d : {0u, 1u}) demand_ok(h.db->flush(d), "flush");
  auto staged = stage(h, large_values());
  const std::size_t with_pieces = segments(h).size();
  demand(with_pieces > 2, "one segment");
  if (committed) commit(h, *staged);
  if (replayed) {
    h.crash(CrashMode::kNothing, 1);
    h.open();
  }
  h.put(1, "other", std::string(80'000, 'o'));
  demand_ok(h.db->flush(1), "flush");
  if (!committed) {
    h.put(0, "other", "1");
    demand_ok(h.db->flush(0), "flush");
    for (int i = 0; i < 5; ++i) {
      h.put(1, "other", std::string(80'000, 'o'));
      demand_ok(h.db->flush(1), "flush");
    }
    demand(segments(h).size() >= with_pieces, "segments of pending pieces went");
    commit(h, *staged);
  }
  h.crash(CrashMode::kNothing, 1);
  h.open();
  demand(has_large_values(h), "a synced batch is lost");
  demand_ok(h.db->flush(0), "flush");
  h.settle();
  h.put(0, "last", "1");
  h.db->write_log();
  demand_ok(h.db->flush(0), "flush");
  h.settle();
  demand(segments(h).size() <= 2, "segments stay for pieces that tables have");
  h.reopen();
  demand(has_large_values(h), "a flushed batch is lost");
}

TEST_CASE("segment ends with pieces: it is synced before the next segment, which may have the pieces' commit record",
          "[pieces]") {
  lose_power_after_switch();
}

TEST_CASE("segments have pieces of a batch: they stay until the batch is in tables", "[pieces]") {
  advance_past_pieces(false);
  advance_past_pieces(true);
  advance_past_pieces(true, true);
}

TEST_CASE("planted bug counts a segment as synced by its last seq: simulated power losses find the bug", "[planted]") {
  must_catch(PlantedBug::kSyncBySeq, lose_power_after_switch);
}

TEST_CASE("planted bug removes segments with pieces that are in no table: a simulated crash finds the bug", "[planted]") {
  must_catch(PlantedBug::kForgetPieces, [] { advance_past_pieces(true); });
}

TEST_CASE("log begins between a batch's pieces and its commit record: the database opens and verifies", "[pieces]") {
  Harness h(pieces_settings());
  h.open();
  h.put(0, "first", "1");
  h.put(1, "first", "1");
  demand_ok(h.db->flush(1), "flush");
  const auto staged = stage(h, large_batch());
  const FileNum first_piece = segments(h).front();
  commit(h, *staged);
  h.put(1, "keeps the segment of the commit record", "1");
  demand_ok(h.db->flush(0), "flush");
  h.settle();
  REQUIRE(segments(h).front() > first_piece);
  CHECK(records(h).find('c') != std::string::npos);
  h.crash(CrashMode::kNothing, 1);
  h.drop();
  const auto verified = verify_checkpoint(h.files.get(), "data", [](std::uint64_t) { return true; });
  REQUIRE(verified.is_ok());
  CHECK(verified->errors.empty());
  h.open();
  CHECK(h.events.warnings.empty());
  CHECK(large_keys(h) == kKeys);
  CHECK(h.get(1, "keeps the segment of the commit record") == "1");
}

TEST_CASE("write fails amid pieces: the commit is refused, and a retry after healing commits the whole batch", "[pieces]") {
  const auto op = GENERATE(FileOp::kWrite, FileOp::kSync);
  const std::uint64_t nth = GENERATE(1, 5, 200, 1200);
  Harness h(pieces_settings());
  h.open();
  h.put(0, "first", "1");
  h.faults->inject({.ops = ops_of(op), .nth = op == FileOp::kSync ? std::min<std::uint64_t>(nth, 40) : nth, .path_has = ".wal"});
  const auto staged = stage(h, large_batch());
  std::uint32_t wait_ms = 0;
  CHECK(h.db->try_commit(*staged, false, &wait_ms).code() == Code::kReadOnly);
  h.faults->clear_faults();
  h.heal();
  CHECK(h.get(0, "first") == "1");
  CHECK(large_keys(h) == 0);
  commit(h, *staged);
  h.crash(CrashMode::kNothing, 1);
  h.open();
  CHECK(large_keys(h) == kKeys);
}

TEST_CASE("log fails and heals between pieces and commit: the new log gets the batch as one record", "[pieces]") {
  Harness h(pieces_settings());
  h.open();
  h.put(0, "first", "1");
  const auto staged = stage(h, large_batch());
  h.lose_write();
  h.heal();
  commit(h, *staged);
  const std::string kinds = records(h);
  CHECK(kinds.find('c') == std::string::npos);
  h.crash(CrashMode::kNothing, 1);
  h.open();
  CHECK(large_keys(h) == kKeys);
}

TEST_CASE("staged batch waits for its commit: segments of other trees' writes are removed, and the batch commits whole",
          "[pieces]") {
  Harness h(pieces_settings());
  h.open();
  h.put(0, "first", "1");
  const auto staged = stage(h, large_batch());
  for (int i = 0; i < 600; ++i) {
    h.put(0, key_of(10'000 + i), std::string(4000, 'o'));
    if (i % 10 == 0) h.advance(100);
    h.settle();
  }
  CHECK(h.db->stats().wal_live_bytes < (1 << 20));
  commit(h, *staged);
  h.crash(CrashMode::kNothing, 1);
  h.open();
  CHECK(large_keys(h) == kKeys);
}

TEST_CASE("values are in pieces, committed or not: no file has them after the deadline of their delete", "[pieces]") {
  const bool committed = GENERATE(true, false), restart = GENERATE(true, false);
  INFO("committed " << committed << ", restart " << restart);
  Settings settings = pieces_settings();
  settings.tree.delete_deadline = 20'000;
  Harness h(settings);
  h.open();
  h.put(0, "first", "1");
  auto staged = stage(h, large_batch("secret"));
  if (committed) {
    commit(h, *staged);
  } else {
    staged.reset();
    for (int i = 0; i < kKeys; ++i) h.put(0, key_of(i), "secret" + std::string(700, 'v'));
  }
  if (restart) {
    h.crash(CrashMode::kEverything, 1);
    h.open();
  }
  REQUIRE_FALSE(files_with(h, "secretvvv").empty());
  for (int i = 0; i < kKeys; ++i) h.del(0, key_of(i));
  h.put(0, "other", "1");
  pass_deadline(h, restart ? 10'000 : 0);  // after a crash engine time is ahead of the clock
  CHECK(files_with(h, "secretvvv") == "");
  CHECK(h.db->stats().deadlines_missed_load == 0);
}

TEST_CASE("segment has pieces of a deleted value: the ticket's status lists the segment as not purged", "[pieces]") {
  const bool committed = GENERATE(true, false), restart = GENERATE(true, false);
  INFO("committed " << committed << ", restart " << restart);
  Settings settings = pieces_settings();
  settings.tree.delete_deadline = 20'000;
  Harness h(settings);
  h.open();
  h.put(0, "first", "1");
  auto staged = stage(h, large_values());
  if (committed) {
    commit(h, *staged);
  } else {
    staged.reset();
  }
  const std::size_t with_pieces = segments(h).size();
  REQUIRE(with_pieces >= 4);
  if (restart) {
    h.crash(CrashMode::kEverything, 1);
    h.open();
  }
  h.put(0, key_of(0), "a value that the delete finds");
  h.del(0, key_of(0));
  SeqNum up_to = 0;
  const PurgeTicket ticket = h.db->purge_ticket(&up_to);
  h.advance(1);
  const auto status = h.db->purge_status(ticket);
  REQUIRE(status.is_ok());
  CHECK(status->left[static_cast<std::size_t>(PurgePlace::kLog)].files == with_pieces + (restart ? 1 : 0));
  pass_deadline(h, restart ? 10'000 : 0);
  CHECK(h.db->purge_status(ticket)->done);
}

TEST_CASE("segments with pieces of a staged batch have due deletes: they are removed in time, and the batch commits whole",
          "[pieces]") {
  Settings settings = pieces_settings();
  settings.tree.delete_deadline = 20'000;
  Harness h(settings);
  h.open();
  h.put(0, "doomed", "secret-value");
  const auto staged = stage(h, large_batch());
  h.del(0, "doomed");
  pass_deadline(h);
  CHECK(files_with(h, "secret-value") == "");
  CHECK(h.db->stats().deadlines_missed_load == 0);
  commit(h, *staged);
  h.crash(CrashMode::kNothing, 1);
  h.open();
  CHECK(large_keys(h) == kKeys);
}

TEST_CASE("piece of a batch that only the log has is damaged: open fails, and the error names the piece", "[pieces]") {
  Harness h(pieces_settings());
  h.open();
  h.put(0, "first", "1");
  const auto staged = stage(h, large_batch());
  commit(h, *staged);
  h.put(0, "last", "1");
  const std::string path = h.paths(".wal").front();
  auto left = h.files->crash_clone(1, CrashMode::kEverything);
  h.abandon(std::move(left));
  std::string bytes = read_file(*h.files, path).value();
  bytes[30'000] = static_cast<char>(bytes[30'000] ^ 1);
  REQUIRE(h.files->unlink(path).is_ok());
  auto file = h.files->create(path);
  REQUIRE((*file)->append(bytes).is_ok());
  file->reset();
  const Status status = h.try_open();
  REQUIRE(status.code() == Code::kCorruption);
  CHECK(status.to_string().find(" is missing") != std::string::npos);
  CHECK(status.to_string().find("only the log had them") != std::string::npos);
}

TEST_CASE("checkpoint is made during or after a commit of pieces: it opens with the visible data", "[pieces]") {
  Harness h(pieces_settings());
  h.open();
  h.put(0, "first", "1");
  auto staged = stage(h, large_batch());
  const bool committed = GENERATE(true, false);
  if (committed) commit(h, *staged);
  const auto report = h.db->checkpoint("copy");
  demand_ok(report.status(), "checkpoint");
  const auto verified = verify_checkpoint(h.files.get(), "copy", [](std::uint64_t) { return true; });
  REQUIRE(verified.is_ok());
  CHECK(verified->errors.empty());
  staged.reset();
  h.settings.dir = "copy";
  h.drop();
  h.open();
  CHECK(h.get(0, "first") == "1");
  CHECK(large_keys(h) == (committed ? kKeys : 0));
}

}  // namespace TEST_FILE
