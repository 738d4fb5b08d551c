// Removed or truncated log segments: open fails and names them.
#include "engine/db/harness.h"
#include "support/long_run.h"

using namespace ebbtide;

namespace {

Settings several_segments() {
  Settings settings = Harness::small();
  settings.memtable_size = 4 << 20;
  settings.wal_segment_size = 64 << 10;
  return settings;
}

void fill_segments(Harness& h, std::size_t segments) {
  for (int i = 0; h.paths(".wal").size() < segments; ++i) h.put(0, "key" + std::to_string(i), std::string(1000, 'v'));
}

}  // namespace

TEST_CASE("a missing oldest log segment: open fails and names it") {
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

TEST_CASE("a missing or empty only log segment of a database without a flush: open fails") {
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

TEST_CASE("after a flush older log segments may be missing, but not those that the manifest names") {
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

TEST_CASE("a log restarted after a failure begins there, and not before") {
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

TEST_CASE("a crash at any operation of healing a failed log opens") {
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

TEST_CASE("a missing segment in the middle is reported despite a flush of another tree") {
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
