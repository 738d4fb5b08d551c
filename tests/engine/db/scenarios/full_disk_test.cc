// Delete deadlines on a full disk: another program repeatedly takes all space except that for the log and a merge of two files.
#include "engine/db/harness.h"
#include "engine/db/layouts.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kKiB = std::uint64_t{1} << 10;
constexpr std::uint64_t kDisk = 16 * kMiB;
constexpr std::uint64_t kFloor = kDisk / 160;  // only for log and flushes (db/background/disk_watch.cc)
constexpr std::uint64_t kFile = 64 * kKiB;
// The log has its own room; space for memtables' flushes counts as used.
constexpr std::uint64_t kRoom = kFloor + 32 * kKiB + 2 * kFile + 32 * kKiB;
constexpr Millis kDeadline = 60'000;
constexpr int kSteps = 50, kKeys = 4000;

Settings settings_of(const Layout& layout) {
  Settings settings = Harness::small();
  settings.memtable_size = 32 * kKiB;
  settings.wal_segment_size = 64 * kKiB;
  settings.tree.file_size = kFile;
  settings.tree.delete_deadline = kDeadline;
  layout.set(&settings.tree);
  return settings;
}

/// A value that is unique for key and time.
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
  /// True if a table has the last value of the key. Tables are not compressed.
  [[nodiscard]] bool holds(int key) const { return h.table_bytes().find(value_of(key, 1).substr(0, 14)) != std::string::npos; }

  Harness h;
  std::unique_ptr<WritableFile> ballast;
  std::uint64_t ballast_bytes = 0;
};

std::uint64_t misses(const Stats& s) {
  return s.deadlines_missed_down + s.deadlines_missed_clock + s.deadlines_missed_disk + s.deadlines_missed_damage +
         s.deadlines_missed_load;
}

TEST_CASE("a full disk with room for two files: every delete is on time under every policy", "[deadlines]") {
  for (std::uint64_t turn = 0; turn < small_policies().size(); ++turn) {
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

TEST_CASE("a merge that failed for lack of room does not delay a merge for a deadline", "[deadlines]") {
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

}  // namespace
}  // namespace ebbtide
