// Tests that a log longer than memory_budget is flushed while it is replayed.
#include "engine/db/harness.h"
#include "support/keys.h"
#include "support/long_run.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr DatabaseId kDatabases = 4;

// Returns settings with which nothing is flushed while the log is written.
Settings roomy() {
  Settings s = Harness::small();
  s.memory_budget = 256 * kMiB;
  s.tree.memtable_size = 16 * kMiB;
  s.wal_segment_size = kMiB;
  return s;
}

Settings tight() {
  Settings s = roomy();
  s.memory_budget = 4 * kMiB;
  s.tree.memtable_size = 512 << 10;
  return s;
}

std::string key_at(int i) { return "key" + std::to_string(100'000 + i); }
std::string value_at(int i) { return std::to_string(i) + std::string(i % 50 == 0 ? 100'000 : 1000, 'v'); }

// The number of keys that are put, spread over four databases that the manifest has. Every seventh key is deleted. Then come a
// batch of 5 MiB and a range delete.
constexpr int kKeys = 2500;
void write_log_of_twice_the_budget(Harness& h) {
  h.open();
  for (DatabaseId d = 0; d < kDatabases; ++d) h.put(d, "first", "1");
  h.settle();
  for (int i = 0; i < kKeys; ++i) {
    h.put(static_cast<DatabaseId>(i) % kDatabases, key_at(i), value_at(i));
    if (i % 7 == 0) h.del(static_cast<DatabaseId>(i) % kDatabases, key_at(i));
  }
  WriteBatch batch;
  for (int i = 0; i < 5000; ++i) batch.put(1, "batch" + std::to_string(i), std::string(1000, 'b'));
  h.write(batch);
  h.del_range(2, "key1020", "key1021");
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  REQUIRE(h.db->stats().flushes == 0);
}

void check_all(Harness& h) {
  int wrong = 0;
  for (int i = 0; i < kKeys; ++i) {
    const auto d = static_cast<DatabaseId>(i) % kDatabases;
    const bool in_range = d == 2 && key_at(i) >= "key1020" && key_at(i) < "key1021";
    wrong += h.get(d, key_at(i)) == (i % 7 == 0 || in_range ? "(absent)" : value_at(i)) ? 0 : 1;
  }
  for (int i = 0; i < 5000; ++i) wrong += h.get(1, "batch" + std::to_string(i)) == std::string(1000, 'b') ? 0 : 1;
  CHECK(wrong == 0);
  for (DatabaseId d = 0; d < kDatabases; ++d) h.verify(d);
}

TEST_CASE("log is longer than the memory budget: replay flushes memtables, and their memory stays below the budget", "[replay]") {
  Harness h(roomy());
  write_log_of_twice_the_budget(h);
  REQUIRE(h.db->stats().memtable_bytes > 8 * kMiB);
  h.crash(CrashMode::kNothing, 1);
  h.settings = tight();
  h.open();
  CHECK(h.db->stats().flushes >= 4);
  CHECK(h.db->stats().memtable_bytes < 4 * kMiB);
  CHECK(h.events.warnings.empty());
  check_all(h);
  h.settle();
  h.crash(CrashMode::kNothing, 2);
  h.open();
  check_all(h);
}

TEST_CASE("crash at any step of a replay with flushes: the next open has every write", "[replay]") {
  Harness first(roomy());
  write_log_of_twice_the_budget(first);
  const CrashMode mode = GENERATE(CrashMode::kNothing, CrashMode::kRandom, CrashMode::kEverything);
  const std::uint64_t step = 31 * every_nth();  // the seed chooses one of every 31 operations, or fewer
  const auto left = first.files->crash_clone(1, CrashMode::kNothing);
  for (std::uint64_t k = 1 + first_seed() % step;; k += step) {
    INFO("crash before operation " << k << ", mode " << static_cast<int>(mode));
    Harness h(tight());
    h.abandon(left->crash_clone(1, CrashMode::kEverything));
    std::unique_ptr<MemoryFileSystem> crashed;
    h.faults->before_nth(k, kMutatingOps, [&] { crashed = h.files->crash_clone(first_seed() + k, mode); });
    h.open();
    if (crashed == nullptr) break;
    h.abandon(std::move(crashed));
    h.open();
    check_all(h);
  }
}

TEST_CASE("power loss during the replay of a log that was not synced: the next open has a prefix of the writes", "[replay]") {
  Settings s = roomy();
  s.fsync = FsyncMode::kNo;
  s.wal_segment_size = 64 * kMiB;  // no segment ends, which would sync it
  Harness h(s);
  h.open();
  h.put(0, "first", "1");
  h.settle();
  constexpr int kPuts = 6000;
  for (int i = 0; i < kPuts; ++i) h.put(0, key_at(i), std::string(1000, 'v'));
  h.faults->inject({.ops = ops_of(FileOp::kSync), .sticky = true});
  h.drop();
  h.use(std::move(h.files));  // as after a kill: the written data can be read, but is not durable
  h.settings = tight();
  std::vector<std::unique_ptr<MemoryFileSystem>> left;
  h.watch->on_call = [&](const FileCall& call) {
    const bool relied_on = call.path.ends_with(".wal") || call.path.find("MANIFEST-") != std::string::npos;
    if (call.op == FileOp::kSync && relied_on) left.push_back(h.files->crash_clone(1, CrashMode::kNothing));
  };
  h.open();
  h.watch->on_call = nullptr;
  REQUIRE(h.db->stats().flushes != 0);
  REQUIRE(left.size() > 2);
  for (auto& files : left) {
    h.abandon(std::move(files));
    h.open();
    CHECK(h.get(0, "first") == "1");
    int puts = 0;
    while (puts < kPuts && h.get(0, key_at(puts)) != "(absent)") ++puts;
    for (int i = puts; i < kPuts; i += 100) CHECK(h.get(0, key_at(i)) == "(absent)");
  }
}

TEST_CASE("flush fails during replay: the failure is logged, and open goes on in memory with every write", "[replay]") {
  Harness h(roomy());
  write_log_of_twice_the_budget(h);
  h.crash(CrashMode::kNothing, 1);
  h.settings = tight();
  h.faults->inject({.ops = ops_of(FileOp::kWrite), .nth = 2, .sticky = true, .code = Code::kNoSpace, .path_has = ".data"});
  h.open();
  CHECK(h.events.heard("a flush failed while the log was replayed"));
  CHECK(h.db->stats().flushes == 0);
  h.faults->clear_faults();
  check_all(h);
}

TEST_CASE("log is unreadable after a part that replay has flushed: open fails each time, and no segment is removed", "[replay]") {
  Harness h(roomy());
  write_log_of_twice_the_budget(h);
  h.crash(CrashMode::kNothing, 1);
  h.settings = tight();
  const auto segments = h.paths(".wal");
  REQUIRE(segments.size() > 4);
  h.faults->inject({.ops = ops_of(FileOp::kRead), .sticky = true, .path_has = segments[segments.size() - 2]});
  const Status once = h.try_open();
  REQUIRE_FALSE(once.is_ok());
  REQUIRE_FALSE(h.paths(".data").empty());
  CHECK(h.try_open().to_string() == once.to_string());
  for (const std::string& path : segments) CHECK(h.files->exists(path));
  h.faults->clear_faults();
  h.open();
  check_all(h);
}

TEST_CASE("delete deadline was configured before a replay with flushes: deletes are purged by it", "[replay]") {
  Harness h(roomy());
  h.settings.tree.delete_deadline = 60'000;
  write_log_of_twice_the_budget(h);
  SeqNum up_to = 0;
  const PurgeTicket ticket = h.db->purge_ticket(&up_to);
  REQUIRE(h.db->wait_synced(up_to).is_ok());
  h.crash(CrashMode::kNothing, 1);
  const Millis deadline = h.settings.tree.delete_deadline;
  h.settings = tight();
  h.settings.tree.delete_deadline = deadline;
  h.open();
  REQUIRE(h.db->stats().flushes >= 4);
  for (int i = 0; i < 70; ++i) {
    h.advance(1000);
    h.settle();
  }
  const auto status = h.db->purge_status(ticket);
  REQUIRE(status.is_ok());
  CHECK(status->done);
  const std::string bytes = h.table_bytes();
  CHECK(bytes.find(key_at(7)) == std::string::npos);
  CHECK(bytes.find(key_at(8)) != std::string::npos);
}

}  // namespace TEST_FILE
