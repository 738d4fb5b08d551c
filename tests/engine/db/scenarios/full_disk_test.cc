// Tests of delete deadlines on a full disk: another program repeatedly takes all space except that for the log and a merge of two
// files.
#include "engine/db/harness.h"
#include "engine/db/layouts.h"
#include "support/long_run.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kKiB = std::uint64_t{1} << 10;
constexpr std::uint64_t kDisk = 16 * kMiB;
constexpr std::uint64_t kFloor = kDisk / 160;  // space that only the log and flushes may use (db/background/disk_watch.cc)
constexpr std::uint64_t kFile = 64 * kKiB;
// The free space that the other program leaves: the floor, a memtable for the flush, two files for a merge, and 32 KiB more. The
// log has other space.
constexpr std::uint64_t kRoom = kFloor + 32 * kKiB + 2 * kFile + 32 * kKiB;
constexpr Millis kDeadline = 60'000;
constexpr int kSteps = 50, kKeys = 4000;

Settings settings_of(const Layout& layout) {
  Settings settings = Harness::small();
  settings.tree.memtable_size = 32 * kKiB;
  settings.wal_segment_size = 64 * kKiB;
  settings.tree.file_size = kFile;
  settings.tree.delete_deadline = kDeadline;
  layout.set(&settings.tree);
  return settings;
}

/// Returns a value that is unique for key and version.
std::string value_of(int key, int version) {
  std::string value = "value-" + std::to_string(key) + "-" + std::to_string(version) + ".";
  value.resize(300, 'v');
  return value;
}

struct FullDisk {
  explicit FullDisk(const Layout& layout) : h(settings_of(layout)) {
    h.files->set_capacity(kDisk);
    h.open();
  }
  void fill() {
    for (int version = 0; version < 2; ++version) {
      for (int i = 0; i < kKeys; ++i) {
        h.put(0, key_of(static_cast<std::uint64_t>(i * 7 % kKeys)), value_of(i * 7 % kKeys, version));
        if (i % 200 == 0) h.settle();
      }
    }
    REQUIRE(h.db->flush(0).is_ok());
    h.settle();
    h.advance(100);
    h.settle();
  }
  /// Another program's file grows or shrinks until `bytes` are free.
  void leave(std::uint64_t bytes) {
    const std::uint64_t free = h.files->disk_space("data")->free_bytes;
    if (free < bytes) {
      const std::uint64_t less = std::min(ballast_bytes, bytes - free);
      ballast_bytes -= less;
      ballast.reset();
      REQUIRE(h.files->unlink("ballast").is_ok());
      ballast = std::move(h.files->create("ballast")).value();
      REQUIRE(ballast->append(std::string(ballast_bytes, 'b')).is_ok());
    } else if (free > bytes) {
      if (ballast == nullptr) ballast = std::move(h.files->create("ballast")).value();
      REQUIRE(ballast->append(std::string(free - bytes, 'b')).is_ok());
      ballast_bytes += free - bytes;
    }
  }
  void pass(Millis ms) {
    h.advance(ms);
    h.settle();
    h.db->write_log();
  }
  /// Returns true if a table has the last value of the key. Tables are not compressed.
  [[nodiscard]] bool holds(int key) const { return h.table_bytes().find(value_of(key, 1).substr(0, 14)) != std::string::npos; }

  Harness h;
  std::unique_ptr<WritableFile> ballast;
  std::uint64_t ballast_bytes = 0;
};

std::uint64_t misses(const Stats& s) {
  return s.deadlines_missed_down + s.deadlines_missed_clock + s.deadlines_missed_disk + s.deadlines_missed_damage +
         s.deadlines_missed_load;
}

TEST_CASE("disk has room for only two files: under every policy, every delete is purged on time", "[deadlines]") {
  for (std::uint64_t turn = first_of_every_nth(); turn < small_policies().size(); turn += every_nth()) {
    const Layout layout = layout_of(turn);
    INFO(text_of(layout));
    FullDisk d(layout);
    d.fill();
    d.leave(kRoom);
    d.pass(1000);
    d.leave(kRoom);
    WriteBatch more;
    more.put(0, "more", "data");
    CHECK(d.h.db->commit(more).code() == Code::kNoSpace);
    for (int i = 0; i < kKeys; i += 11) d.h.del(0, key_of(static_cast<std::uint64_t>(i)));
    d.h.del_range(0, key_of(1000), key_of(1100));
    const Millis deleted = d.h.db->now();
    while (d.h.db->now() < deleted + kDeadline) {
      d.pass(kDeadline / kSteps);
      d.leave(kRoom);
      REQUIRE(misses(d.h.db->stats()) == 0);
    }
    d.pass(1000);
    const Stats stats = d.h.db->stats();
    CHECK(misses(stats) == 0);
    CHECK_FALSE(stats.read_only);
    CHECK(d.h.db->tree_info(0)->oldest_obligation == 0);
    CHECK_FALSE(d.holds(11));
    CHECK_FALSE(d.holds(1050));
    CHECK(d.h.get(0, key_of(1)) == value_of(1, 1));
    d.h.verify(0);
  }
}

TEST_CASE("merge failed since the disk had no room: a merge for a deadline is not delayed", "[deadlines]") {
  Layout layout;
  layout.policy = {"tiering", {{"size_ratio", 4}}};
  FullDisk d(layout);
  d.h.db->pause_compactions();
  for (int run = 0; run < 4; ++run) {
    for (int i = 0; i < kKeys; i += 8) d.h.put(0, key_of(static_cast<std::uint64_t>(i)), value_of(i, run));
    REQUIRE(d.h.db->flush(0).is_ok());
  }
  d.leave(kRoom);
  d.h.db->resume_compactions();
  d.pass(100);
  REQUIRE(d.h.events.heard("compaction failed: no space"));

  d.h.del(0, key_of(8));
  SeqNum up_to = 0;
  const PurgeTicket ticket = d.h.db->purge_ticket(&up_to);
  REQUIRE(d.h.db->flush(0).is_ok());
  REQUIRE(d.h.db->purge_now(ticket).is_ok());
  for (int i = 0; i < 5; ++i) d.pass(100);
  CHECK(d.h.db->tree_info(0)->oldest_obligation == 0);
}

TEST_CASE("database opens on a full disk without a reserve file: reads work, and writes work once there is room") {
  for (const FileOp op : {FileOp::kCreate, FileOp::kWrite}) {
    for (const char* refused : {".wal", "MANIFEST", "CURRENT"}) {
      for (const bool damaged : {false, true}) {
        INFO(refused << (op == FileOp::kCreate ? " is not created" : " is not written")
                     << (damaged ? ", a table is damaged" : ""));
        Harness h;
        h.open();
        h.put(0, "flushed", "1");
        REQUIRE(h.db->flush(0).is_ok());
        h.put(1, "other", "1");
        REQUIRE(h.db->flush(1).is_ok());
        h.settle();
        h.put(0, "logged", "1");
        h.put(0, "deleted", "1");
        h.del(0, "deleted");
        h.crash(CrashMode::kEverything, 1);
        if (damaged) REQUIRE(h.files->truncate(h.paths(".meta").back(), 10).is_ok());
        h.faults->inject({.ops = ops_of(op), .sticky = true, .code = Code::kNoSpace, .path_has = refused});
        h.open();
        CHECK(h.get(0, "flushed") == "1");
        CHECK(h.get(0, "logged") == "1");
        CHECK(h.get(0, "deleted") == "(absent)");
        CHECK(h.db->write_status().code() == Code::kReadOnly);
        CHECK(h.events.heard("only reads are served"));
        for (int i = 0; i < 5; ++i) {
          h.advance(3000);
          h.settle();
        }
        CHECK_FALSE(h.db->write_status().is_ok());
        CHECK(h.get(0, "logged") == "1");
        h.faults->clear_faults();
        h.heal();
        h.put(0, "later", "1");
        h.del(0, "logged");
        h.crash(CrashMode::kEverything, 1);
        h.open();
        CHECK(h.get(0, "flushed") == "1");
        CHECK(h.get(0, "logged") == "(absent)");
        CHECK(h.get(0, "deleted") == "(absent)");
        CHECK(h.get(0, "later") == "1");
      }
    }
  }
}

TEST_CASE("server starts thrice on a full disk, and serves reads: the next start has every write") {
  Harness h;
  h.open();
  h.put(0, "logged", "1");
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  for (int i = 0; i < 3; ++i) {
    h.crash(CrashMode::kRandom, 1);
    h.faults->inject({.ops = ops_of(FileOp::kCreate), .sticky = true, .code = Code::kNoSpace, .path_has = ".wal"});
    h.open();
    CHECK(h.get(0, "logged") == "1");
    if (i == 1) (void)h.db->close();
  }
  h.crash(CrashMode::kRandom, 1);
  h.open();
  CHECK(h.get(0, "logged") == "1");
  h.put(0, "later", "1");
}

TEST_CASE("torn end of the log cannot be cut: reads work, and writes work once the disk accepts the cut") {
  for (const FileOp op : {FileOp::kTruncate, FileOp::kSync, FileOp::kUnlink}) {
    for (const Code code : {Code::kNoSpace, Code::kIoError}) {
      INFO("operation " << file_op_name(op) << ", " << (code == Code::kNoSpace ? "no space" : "I/O error"));
      Harness h;
      h.open();
      h.put(0, "flushed", "1");
      REQUIRE(h.db->flush(0).is_ok());
      h.put(0, "logged", "1");
      h.put(0, "deleted", "1");
      h.del(0, "deleted");
      REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
      h.put(0, "torn", "1");
      h.crash(CrashMode::kEverything, 1);
      const std::string newest = h.paths(".wal").back();
      REQUIRE(h.files->truncate(newest, *h.files->file_size(newest) - 3).is_ok());
      // The unlink is that of a segment whose creation was interrupted.
      if (op == FileOp::kUnlink) REQUIRE(h.files->create("data/000900.wal").is_ok());
      // The first sync of each segment belongs to the replay, the second one to the cut.
      const std::uint64_t nth = op == FileOp::kSync ? h.paths(".wal").size() + 1 : 1;
      for (int start = 0; start < 3; ++start) {
        const std::size_t segments = h.paths(".wal").size();
        h.faults->inject({.ops = ops_of(op), .nth = nth, .sticky = true, .code = code, .path_has = ".wal"});
        h.open();
        CHECK(h.get(0, "flushed") == "1");
        CHECK(h.get(0, "logged") == "1");
        CHECK(h.get(0, "deleted") == "(absent)");
        CHECK(h.get(0, "torn") == "(absent)");
        WriteBatch more;
        more.put(0, "more", "1");
        CHECK(h.db->commit(more).code() == Code::kReadOnly);
        CHECK(h.db->write_status().to_string().find("truncating the torn end of the write-ahead log") != std::string::npos);
        CHECK(h.paths(".wal").size() == segments);  // no segment follows the torn end
        if (start < 2) h.crash(CrashMode::kNothing, 1);
      }
      h.faults->clear_faults();
      h.heal();
      h.put(0, "later", "1");
      h.del(0, "logged");
      for (int start = 0; start < 2; ++start) {
        h.crash(CrashMode::kEverything, 1);
        h.open();
        CHECK(h.get(0, "flushed") == "1");
        CHECK(h.get(0, "logged") == "(absent)");
        CHECK(h.get(0, "deleted") == "(absent)");
        CHECK(h.get(0, "later") == "1");
        CHECK(h.db->write_status().is_ok());
      }
    }
  }
}

TEST_CASE("new database is made on a full disk: open fails, since there is nothing to serve") {
  Harness h;
  h.faults->inject({.ops = ops_of(FileOp::kCreate), .sticky = true, .code = Code::kNoSpace, .path_has = ".wal"});
  CHECK(h.try_open().code() == Code::kNoSpace);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
