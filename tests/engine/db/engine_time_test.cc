// Tests of engine time while its mark cannot be written: expiry and lateness use the current time, stamps and removals wait at
// the mark.
#include "db/engine_time.h"

#include <thread>

#include "engine/db/harness.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr Millis kExpiry = 20'000, kLong = 45'000;

bool is_manifest(const FileCall& call) { return call.path.find("MANIFEST") != std::string::npos; }

void fail_manifest(Harness& h) {
  h.faults->inject(
      {.ops = ops_of(FileOp::kCreate, FileOp::kWrite, FileOp::kSync), .sticky = true, .path_has = std::string("MANIFEST")});
}

void pass(Harness& h, Millis ms) {
  for (; ms > 0; ms -= 1000) {
    h.advance(1000);
    h.settle();
  }
}

TEST_CASE("mark of engine time has been passed: now() continues, and stamped() waits until a later mark is durable") {
  SimulatedClock clock;
  EngineTime time(clock);
  time.start(0);
  const Millis begin = clock.wall_ms();
  CHECK(time.now() == begin);
  time.set_mark(begin + EngineTime::kLead);
  clock.advance(kLong);
  CHECK(time.now() == begin + kLong);
  CHECK(time.stamped() == begin + EngineTime::kLead);
  CHECK(time.stamped(begin + 5) == begin + 5);
  const Millis mark = time.tick();
  CHECK(mark == begin + kLong + EngineTime::kLead);
  CHECK(time.stamped() == begin + EngineTime::kLead);  // the mark that tick() requests is not durable yet
  time.set_mark(mark);
  CHECK(time.stamped() == begin + kLong);
}

TEST_CASE("engine time starts ahead of the wall clock: now() and stamped() never go back") {
  SimulatedClock clock;
  EngineTime time(clock);
  time.start(clock.wall_ms() + 8000);
  Millis last = 0, last_stamp = 0;
  for (int i = 0; i < 300; ++i) {
    clock.advance(100);
    if (i % 3 != 0) (void)time.tick();
    if (i == 150) time.set_mark(clock.wall_ms() + 20'000);
    CHECK(time.now() >= last);
    CHECK(time.stamped() >= last_stamp);
    CHECK(time.stamped() <= time.now());
    last = time.now(), last_stamp = time.stamped();
  }
  CHECK(time.now() == clock.wall_ms());
}

TEST_CASE("manifest cannot be written: a key with an expiry still expires in time") {
  Harness h;
  h.open();
  const Millis begin = h.db->now();
  h.put(0, "memory", "v", begin + kExpiry);
  fail_manifest(h);
  pass(h, kExpiry - 1000);
  CHECK(h.get(0, "memory") == "v");
  CHECK(*h.db->count(0, {}) == 1);
  pass(h, 1000);
  CHECK(h.get(0, "memory") == "(absent)");
  CHECK(*h.db->count(0, {}) == 0);  // leased views use the same time
  pass(h, kLong);
  CHECK(h.db->stats().engine_time >= begin + kExpiry + kLong);
  SeqNum up_to = 0;
  CHECK(h.db->purge_ticket(&up_to).born_by <= begin + EngineTime::kLead);
}

TEST_CASE("manifest is busy for a long time: reads use the current engine time, but new stamps stay below the durable mark") {
  Harness h;
  h.open();
  const Millis begin = h.db->now(), expiry = begin + kExpiry;
  h.put(0, "a", "1", expiry);
  bool busy = false;
  h.watch->on_call = [&](const FileCall& call) {
    if (busy || call.op != FileOp::kSync || !is_manifest(call)) return;
    busy = true;
    h.clock.advance(kLong);
    std::thread([&] { h.db->tick(); }).join();  // the flush holds the manifest
    CHECK(h.db->now() == begin + kLong);
    CHECK(h.get(0, "a") == "(absent)");
    WriteBatch relies;
    relies.put(0, "a", "2", {kNoStamp, expiry});
    relies.rely_on_expiry(expiry);
    CHECK(h.db->commit(relies).code() == Code::kRetry);
    WriteBatch free;
    free.put(0, "b", "3");
    REQUIRE(h.db->commit(free).is_ok());
    CHECK(free.time() <= begin + EngineTime::kLead);
    CHECK(h.get(0, "a") == "(absent)");
  };
  REQUIRE(h.db->flush(0).is_ok());
  REQUIRE(busy);
  h.watch->on_call = nullptr;
  h.advance(100);
  WriteBatch later;
  later.put(0, "c", "4");
  h.write(later);
  CHECK(later.time() == h.db->now());
  CHECK(h.get(0, "a") == "(absent)");
  CHECK(h.get(0, "b") == "3");
}

TEST_CASE("expiry is past the mark of engine time: a merge removes the entry only after the mark has passed the expiry") {
  Harness h;
  h.open();
  h.put(0, "a", "expires", h.db->now() + kExpiry);
  h.put(0, "b", "is overwritten");
  REQUIRE(h.db->flush(0).is_ok());
  h.put(0, "b", "stays");
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  h.clock.advance(kLong);  // there is no tick, so the mark stays
  CHECK(h.get(0, "a") == "(absent)");
  const std::uint64_t merges = h.db->stats().compactions;
  REQUIRE(h.db->compact(0, {}).is_ok());
  REQUIRE(h.db->stats().compactions > merges);
  h.settle();
  CHECK(h.get(0, "a") == "(absent)");
  CHECK(h.table_bytes().find("expires") != std::string::npos);
  h.advance(100);
  h.put(0, "b", "stays, too");  // otherwise there is nothing to merge
  REQUIRE(h.db->flush(0).is_ok());
  REQUIRE(h.db->compact(0, {}).is_ok());
  h.settle();
  h.advance(1000);  // files that merges replaced are removed now
  h.settle();
  CHECK(h.get(0, "a") == "(absent)");
  CHECK(h.table_bytes().find("expires") == std::string::npos);
}

// This is the only case in which an expired key can be read again; every other start begins at or after the expiry.
TEST_CASE("crash after a key expired past the mark: the key can be read again only if the wall clock was set back") {
  const bool set_back = GENERATE(false, true), flushed = GENERATE(false, true);
  Harness h;
  h.settings.fsync = FsyncMode::kAlways;
  h.open();
  h.put(0, "a", "1", h.db->now() + kExpiry);
  if (flushed) REQUIRE(h.db->flush(0).is_ok());
  fail_manifest(h);
  pass(h, kLong);
  CHECK(h.get(0, "a") == "(absent)");
  h.faults->clear_faults();
  if (set_back) h.clock.set_wall(h.clock.wall_ms() - 3'600'000);
  h.crash(CrashMode::kEverything, 1);
  h.open();
  CHECK(h.get(0, "a") == (set_back ? "1" : "(absent)"));
  pass(h, kExpiry);
  CHECK(h.get(0, "a") == "(absent)");
}

TEST_CASE("deadline passes while the manifest cannot be written: it counts as missed at once, with the reason disk") {
  Harness h;
  h.settings.tree.delete_deadline = 60'000;
  h.open();
  h.put(0, "a", "1");
  h.put(0, "b", "2");
  REQUIRE(h.db->flush(0).is_ok());
  h.del(0, "a");
  fail_manifest(h);
  pass(h, 59'000);
  CHECK(h.db->stats().deadlines_missed_disk == 0);
  pass(h, 3000);
  CHECK(h.db->stats().deadlines_missed_disk == 1);
  h.faults->clear_faults();
  pass(h, 20'000);
  CHECK(h.db->stats().deadlines_missed_disk == 1);
  CHECK(h.db->stats().deadlines_missed_load == 0);
}

TEST_CASE("process is killed: engine time continues, or begins at the mark if the machine was booted meanwhile") {
  SimulatedClock clock;
  EngineTime time(clock, 7);
  time.start(0);
  const Millis mark = time.tick();
  REQUIRE(mark == clock.wall_ms() + EngineTime::kLead);
  const BootMark reached = time.boot_mark(mark);
  clock.advance(3000);
  const auto begins_at = [&](std::uint64_t boot, const BootMark& from) {
    EngineTime next(clock, boot);
    next.start(mark, from);
    return next.now();
  };
  CHECK(begins_at(7, reached) == time.now());
  CHECK(begins_at(8, reached) == mark);
  CHECK(begins_at(0, reached) == mark);
  CHECK(begins_at(7, {}) == mark);
  CHECK(begins_at(7, {7, reached.at + 3 * EngineTime::kLead}) == mark);
  clock.set_wall(clock.wall_ms() - 3'600'000);  // the boot clock decides
  CHECK(begins_at(7, reached) == time.now());
  clock.advance(20'000);
  CHECK(begins_at(7, reached) == mark);
}

TEST_CASE("process is killed and restarted: engine time leads the wall clock by less than half of kLead") {
  MemoryFileSystem files;
  Settings settings = Harness::small();
  const auto open = [&](FileSystem& fs) {
    Components components;  // the system's clock
    components.fs = &fs;
    components.seed = 1;
    return Db::open(settings, components).value();
  };
  auto db = open(files);
  const Millis before = db->now();
  const auto left = files.crash_clone(1, CrashMode::kEverything);
  const auto after = open(*left);
  CHECK(after->now() >= before);
  CHECK(after->now() < before + EngineTime::kLead / 2);  // the mark is a whole kLead ahead
}

}  // namespace TEST_FILE
