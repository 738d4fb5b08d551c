// Tests of removed or truncated log segments: open fails and names them.
#include "engine/db/harness.h"
#include "io/file_names.h"
#include "support/long_run.h"
#include "wal/log_sequence.h"

namespace TEST_FILE {

using namespace ebbtide;

Settings several_segments() {
  Settings settings = Harness::small();
  settings.tree.memtable_size = 4 << 20;
  settings.wal_segment_size = 64 << 10;
  return settings;
}

void fill_segments(Harness& h, std::size_t segments) {
  for (int i = 0; h.paths(".wal").size() < segments; ++i) h.put(0, "key" + std::to_string(i), std::string(1000, 'v'));
}

/// Removes or shortens a segment as `harm` says, and opens what is left.
Status open_without(Harness& h, const std::string& path, const std::string& harm) {
  auto left = h.files->crash_clone(1, CrashMode::kEverything);
  if (harm == "removed") REQUIRE(left->unlink(path).is_ok());
  if (harm == "emptied") REQUIRE(left->truncate(path, 0).is_ok());
  if (harm == "cut in its header") REQUIRE(left->truncate(path, 31).is_ok());
  h.abandon(std::move(left));
  return h.try_open();
}

TEST_CASE("newest segment is removed or has no header: open fails, and the error names segment, last operation and remedy") {
  for (const std::string harm : {"removed", "emptied", "cut in its header"}) {
    for (const bool restarted : {false, true}) {
      INFO(harm << (restarted ? ", first segment of its run" : ""));
      Harness h(several_segments());
      h.open();
      fill_segments(h, 3);
      if (restarted) h.crash(CrashMode::kEverything, 1);
      if (restarted) h.open();
      const SeqNum before = h.db->visible_seq();
      h.del(0, "key1");
      const std::string newest = h.paths(".wal").back();
      const Status status = open_without(h, newest, harm);
      INFO(status.to_string());
      CHECK(status.code() == Code::kCorruption);
      CHECK(status.to_string().find(newest) != std::string::npos);
      CHECK(status.to_string().find("operations up to " + std::to_string(before)) != std::string::npos);
      CHECK(status.to_string().find("ebbtide-inspect salvage data") != std::string::npos);
    }
  }
}

TEST_CASE("several newest log segments are removed: open fails, and the error names the first of them") {
  Harness h(several_segments());
  h.open();
  fill_segments(h, 4);
  h.del(0, "key1");
  const std::vector<std::string> segments = h.paths(".wal");
  auto left = h.files->crash_clone(1, CrashMode::kEverything);
  for (std::size_t i = 2; i < segments.size(); ++i) REQUIRE(left->unlink(segments[i]).is_ok());
  h.abandon(std::move(left));
  const Status status = h.try_open();
  CHECK(status.code() == Code::kCorruption);
  CHECK(status.to_string().find(segments[2] + " is missing: " + segments[1] + " names it") != std::string::npos);
}

TEST_CASE("copy of a segment, or a directory, is named like a log segment: open ignores it, and has every write") {
  for (std::size_t of = 0; of < 3; ++of) {
    for (const std::string stray : {"data/000900.wal", "data/between.wal"}) {
      for (const bool directory : {false, true}) {
        for (const bool torn : {false, true}) {
          Harness h(several_segments());
          h.open();
          fill_segments(h, 2);
          h.crash(CrashMode::kEverything, 1);  // so that nothing names the first segment of the second run
          h.open();
          fill_segments(h, 4);
          h.put(0, "deleted", "1");
          h.del(0, "deleted");
          h.put(0, "last", "1");
          auto left = h.files->crash_clone(1, CrashMode::kEverything);
          const std::vector<std::string> segments = h.paths(".wal");
          // A number between two segments that no file has.
          std::string path = stray;
          if (stray == "data/between.wal") path = "data/" + log_file_name(std::stoull(segments[3].substr(5)) - 1);
          if (left->exists(path)) continue;
          INFO(path << (directory ? " is a directory" : " is a copy of " + segments[of]) << (torn ? ", the log is torn" : ""));
          if (torn) {
            auto size = left->file_size(segments.back());
            REQUIRE(left->truncate(segments.back(), *size - 1).is_ok());
          }
          if (directory) {
            REQUIRE(left->create_dir(path).is_ok());
          } else {
            REQUIRE(copy_file(*left, segments[of], path, *left->file_size(segments[of])).is_ok());
          }
          h.abandon(std::move(left));
          REQUIRE(h.try_open().to_string() == Status::ok().to_string());
          CHECK(h.get(0, "key0") == std::string(1000, 'v'));
          CHECK(h.get(0, "deleted") == "(absent)");
          CHECK(h.get(0, "last") == (torn ? "(absent)" : "1"));
          CHECK(h.events.heard(path));
          CHECK(h.events.heard("no part of the write-ahead log"));
          CHECK((directory || !h.files->exists(path)));
          h.put(0, "later", "1");
          h.del(0, "key0");
          h.crash(CrashMode::kEverything, 1);
          h.open();
          CHECK(h.get(0, "key0") == "(absent)");
          CHECK(h.get(0, "deleted") == "(absent)");
          CHECK(h.get(0, "later") == "1");
        }
      }
    }
  }
}

TEST_CASE("log segment is overwritten by another segment: open fails if only the log had its operations") {
  for (const bool restarted : {false, true}) {
    for (std::size_t to = 0; to < 3; ++to) {
      for (std::size_t from = 0; from < 3; ++from) {
        if (from == to) continue;
        Harness h(several_segments());
        h.open();
        h.put(0, "first", "1");
        fill_segments(h, restarted ? 1 : 2);
        if (restarted) h.crash(CrashMode::kEverything, 1);
        if (restarted) h.open();
        fill_segments(h, 3);
        h.put(0, "last", "1");
        const std::vector<std::string> segments = h.paths(".wal");
        auto left = h.files->crash_clone(1, CrashMode::kEverything);
        REQUIRE(left->unlink(segments[to]).is_ok());
        REQUIRE(copy_file(*left, segments[from], segments[to], *left->file_size(segments[from])).is_ok());
        const std::vector<std::string> before = left->tree();
        h.abandon(std::move(left));
        const Status status = h.try_open();
        INFO(segments[from] << " was copied over " << segments[to] << ": " << status.to_string());
        CHECK(status.code() == Code::kCorruption);
        CHECK(status.to_string().find(segments[to]) != std::string::npos);
        CHECK(status.to_string().find("ebbtide-inspect salvage data") != std::string::npos);
        h.drop();
        CHECK(h.files->tree() == before);  // nothing is removed
      }
    }
  }
}

TEST_CASE("manifest of an older version names no segments: a segment's copy under another name counts as damage") {
  LogNeeds needs{.oldest_log = 7, .last_seq = 1, .lacking = [](SeqNum) { return std::string("tree 3"); }};
  LogEnd end;
  end.clean = false;
  end.valid_after = end.foreign = true;
  end.what = "000009.wal: segment header at 0: belongs to file 7";
  for (const bool named : {false, true}) {
    needs.names_segments = named;
    LogSequence sequence("data", needs);
    REQUIRE(sequence.begin({7, 9}).is_ok());
    sequence.enter(7);
    REQUIRE(sequence.follow(1, 1, 1, 40).is_ok());
    REQUIRE(sequence.leave({}).is_ok());
    sequence.enter(9);
    REQUIRE(sequence.leave(end).is_ok());
    CHECK(sequence.finish().is_ok() == named);
    CHECK(sequence.skipped().size() == (named ? 1u : 0u));
  }
}

TEST_CASE("tables have all operations of a removed log segment: open skips the gap if there is a later segment") {
  Harness h(several_segments());
  h.open();
  h.put(1, "keeps", "the log");
  fill_segments(h, 3);
  const std::string removed = h.paths(".wal")[1];
  REQUIRE(h.db->flush(0).is_ok());
  std::unique_ptr<MemoryFileSystem> left;
  h.watch->on_call = [&](const FileCall& call) {  // the edit with the flushes is durable, and no segment is removed yet
    if (call.op == FileOp::kUnlink && call.path.ends_with(".wal") && left == nullptr)
      left = h.files->crash_clone(1, CrashMode::kEverything);
  };
  REQUIRE(h.db->flush(1).is_ok());
  h.settle();
  h.watch->on_call = nullptr;
  REQUIRE(left != nullptr);
  REQUIRE(left->unlink(removed).is_ok());
  h.abandon(std::move(left));
  h.open();
  CHECK(h.get(1, "keeps") == "the log");
  CHECK(h.get(0, "key1") == std::string(1000, 'v'));
}

TEST_CASE("crash at any operation of a switch of log segments: open has every acknowledged write") {
  for (const FsyncMode fsync : {FsyncMode::kAlways, FsyncMode::kEverySecond}) {
    for (std::uint64_t k = 1;; ++k) {
      INFO("before operation " << k << (fsync == FsyncMode::kAlways ? ", power loss" : ", kill"));
      std::unique_ptr<MemoryFileSystem> left;  // outlives the database, whose closing may be the k-th operation
      Settings settings = several_segments();
      settings.fsync = fsync;
      Harness h(settings);
      h.open();
      int acknowledged = 0, acknowledged_then = 0;
      h.faults->before_nth(k, kMutatingOps, [&] {
        acknowledged_then = acknowledged;
        left = h.files->crash_clone(first_seed() + k, fsync == FsyncMode::kAlways ? CrashMode::kRandom : CrashMode::kEverything);
      });
      for (; h.paths(".wal").size() < 3 && left == nullptr; ++acknowledged) {
        h.put(0, "key" + std::to_string(acknowledged), std::string(8000, 'v'));
      }
      if (left == nullptr) {
        CHECK(k > 20);
        break;
      }
      h.abandon(std::move(left));
      h.open();
      for (int i = 0; i < acknowledged_then; ++i) REQUIRE(h.get(0, "key" + std::to_string(i)) == std::string(8000, 'v'));
      h.del(0, "key0");
      h.crash(CrashMode::kEverything, 1);
      h.open();
      REQUIRE(h.get(0, "key0") == "(absent)");
    }
  }
}

TEST_CASE("end mark of a segment cannot be written: the segment that it names stays until the log has restarted") {
  for (const FileOp op : {FileOp::kWrite, FileOp::kSync}) {
    Harness h(several_segments());
    h.open();
    fill_segments(h, 2);
    const std::string current = h.paths(".wal").back();
    std::string next;
    h.watch->on_call = [&](const FileCall& call) {
      if (call.op != FileOp::kCreate || !call.path.ends_with(".wal") || !next.empty()) return;
      next = call.path;
      h.faults->inject({.ops = ops_of(op), .path_has = current});
    };
    for (int i = 0; next.empty(); ++i) h.put(0, "more" + std::to_string(i), std::string(1000, 'w'));
    CHECK_FALSE(h.db->write_status().is_ok());
    CHECK(h.files->exists(next));
    auto left = h.files->crash_clone(1, CrashMode::kEverything);
    h.heal();
    CHECK_FALSE(h.files->exists(next));
    CHECK_FALSE(h.files->exists(current));
    h.put(0, "after", "1");
    h.crash(CrashMode::kEverything, 1);
    h.open();
    CHECK(h.get(0, "more0") == std::string(1000, 'w'));
    CHECK(h.get(0, "after") == "1");
    h.abandon(std::move(left));
    h.open();
    CHECK(h.get(0, "more0") == std::string(1000, 'w'));
  }
}

TEST_CASE("oldest log segment is missing: open fails, and the error names it") {
  Harness h(several_segments());
  h.open();
  fill_segments(h, 4);
  const std::string oldest = h.paths(".wal").front();
  auto left = h.files->crash_clone(1, CrashMode::kEverything);
  REQUIRE(left->unlink(oldest).is_ok());
  h.abandon(std::move(left));
  const Status status = h.try_open();
  CHECK(status.code() == Code::kCorruption);
  CHECK(status.to_string().find(oldest + " is missing") != std::string::npos);
}

TEST_CASE("only segment of a never flushed database is missing or empty: open fails") {
  for (const bool emptied : {false, true}) {
    Harness h;
    h.open();
    h.put(0, "k", "v");
    REQUIRE(h.paths(".wal").size() == 1);
    const std::string only = h.paths(".wal").front();
    auto left = h.files->crash_clone(1, CrashMode::kEverything);
    REQUIRE((emptied ? left->truncate(only, 0) : left->unlink(only)).is_ok());
    h.abandon(std::move(left));
    const Status status = h.try_open();
    CHECK(status.code() == Code::kCorruption);
    CHECK(status.to_string().find(only) != std::string::npos);
  }
}

TEST_CASE("tables were flushed: open needs only those older log segments that the manifest names") {
  Harness h(several_segments());
  h.open();
  fill_segments(h, 4);
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  h.put(0, "later", "1");
  REQUIRE(h.paths(".wal").size() == 1);
  const std::string only = h.paths(".wal").front();
  h.crash(CrashMode::kEverything, 1);
  h.open();
  CHECK(h.get(0, "later") == "1");
  auto left = h.files->crash_clone(1, CrashMode::kEverything);
  REQUIRE(left->unlink(only).is_ok());
  h.abandon(std::move(left));
  CHECK(h.try_open().code() == Code::kCorruption);
}

TEST_CASE("log was restarted after a failure: it begins at the new segment, and open needs no older one") {
  Harness h;
  h.open();
  h.put(0, "before", "1");
  h.lose_write();
  h.heal();
  h.put(0, "after", "1");
  const std::string first = h.paths(".wal").front();
  h.crash(CrashMode::kEverything, 1);
  h.open();
  CHECK(h.get(0, "before") == "1");
  CHECK(h.get(0, "after") == "1");
  auto left = h.files->crash_clone(1, CrashMode::kEverything);
  REQUIRE(left->unlink(first).is_ok());
  h.abandon(std::move(left));
  CHECK(h.try_open().to_string().find(first + " is missing") != std::string::npos);
}

TEST_CASE("crash at any operation of healing a failed log: the database opens") {
  for (std::uint64_t k = 1;; ++k) {
    INFO("before operation " << k << " after the failure");
    std::unique_ptr<MemoryFileSystem> left;  // outlives the database, whose closing may be the k-th operation
    Harness h;
    h.open();
    h.put(0, "before", "1");
    h.lose_write();
    h.faults->before_nth(k, kMutatingOps, [&] { left = h.files->crash_clone(first_seed() + k); });
    h.heal();
    if (left == nullptr) {
      CHECK(k > 10);
      return;
    }
    h.abandon(std::move(left));
    h.open();
    h.put(0, "again", "1");
    CHECK(h.get(0, "again") == "1");
  }
}

TEST_CASE("segment in the middle is missing: open fails, although a flush of another tree is later") {
  Harness h(several_segments());
  h.open();
  fill_segments(h, 4);
  h.put(1, "other", "tree");
  REQUIRE(h.db->flush(1).is_ok());  // the manifest relies on operations up to here; those of database 0 are only in the log
  h.put(0, "last", "1");
  const std::string middle = h.paths(".wal")[1];
  auto left = h.files->crash_clone(1, CrashMode::kEverything);
  REQUIRE(left->unlink(middle).is_ok());
  h.abandon(std::move(left));
  CHECK(h.try_open().code() == Code::kCorruption);
}

}  // namespace TEST_FILE
