// Tests of delete deadlines for the log and the manifest.
#include "engine/db/harness.h"
#include "support/long_run.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr Millis kTickMs = 20'000;
constexpr int kTicks = 200;  // 4,000 s: past the deadline

Settings clean_settings() {
  Settings s = Harness::small();
  s.fsync = FsyncMode::kAlways;
  s.tree.delete_deadline = 3'600'000;
  return s;
}

/// Writes and deletes keys, flushes them, and lets time pass beyond the deadline, with a log write after each tick. Power is lost
/// before the k-th mutating operation. Returns false if there are fewer operations.
bool lose_power_while_cleaning(std::uint64_t k, CrashMode mode) {
  Harness h(clean_settings());
  h.open();
  for (int i = 0; i < 20; ++i) h.put(0, "key" + std::to_string(i), "value");
  for (int i = 0; i < 10; ++i) h.del(0, "key" + std::to_string(i));
  struct Crash {
    bool armed = true;
    std::unique_ptr<MemoryFileSystem> left{};
  };
  const auto crash = std::make_shared<Crash>();  // the hook outlives this function
  h.faults->before_nth(k, kMutatingOps, [&h, crash, k, mode] {
    if (crash->armed) crash->left = h.files->crash_clone(k, mode);
  });
  REQUIRE(h.db->flush(0).is_ok());
  for (int tick = 0; tick < kTicks && crash->left == nullptr; ++tick) {
    h.advance(kTickMs);
    h.settle();
    h.db->write_log();
  }
  crash->armed = false;
  if (crash->left == nullptr) {
    CHECK(h.db->stats().deadlines_missed_load == 0);
    return false;
  }
  h.abandon(std::move(crash->left));
  h.open();
  for (int i = 0; i < 20; ++i) CHECK(h.get(0, "key" + std::to_string(i)) == (i < 10 ? "(absent)" : "value"));
  return true;
}

TEST_CASE("power loss before any operation of cleaning the log: the database opens with every key") {
  for (const CrashMode mode : {CrashMode::kNothing, CrashMode::kRandom, CrashMode::kEverything}) {
    std::uint64_t k = 1 + first_of_every_nth();
    for (;; k += every_nth()) {
      INFO("crash before operation " << k << ", mode " << static_cast<int>(mode));
      if (!lose_power_while_cleaning(k, mode)) break;
    }
    CHECK(k > 20);  // otherwise the loop tested nothing
  }
}

TEST_CASE("segment has a deleted key, and a memtable needs it: the segment is removed by the deadline") {
  Harness h(clean_settings());
  h.open();
  h.put(0, "deleted key", "value");
  h.del(0, "deleted key");
  REQUIRE(h.db->flush(0).is_ok());
  h.put(0, "other", "value");  // this is no delete, so its memtable is flushed only because of the segment
  const auto logged = [&] {
    std::string bytes;
    for (const std::string& path : h.paths(".wal")) bytes += read_file(*h.files, path).value();
    return bytes.find("deleted key") != std::string::npos;
  };
  CHECK(logged());
  for (int tick = 0; tick < kTicks; ++tick) {
    h.advance(kTickMs);
    h.settle();
    h.db->write_log();
  }
  CHECK_FALSE(logged());
  CHECK(h.get(0, "other") == "value");
}

}  // namespace TEST_FILE
