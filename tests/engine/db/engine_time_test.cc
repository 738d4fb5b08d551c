// Engine time while its mark cannot be written: expiry and lateness use the current time, stamps and removals wait at the mark.
#include "db/engine_time.h"

#include <thread>

#include "engine/db/harness.h"

using namespace ebbtide;

namespace {

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

}  // namespace

TEST_CASE("engine time past its mark: now() runs on, stamped() waits until the mark is durable") {
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
  CHECK(time.stamped() == begin + EngineTime::kLead);  // the mark that tick() asks for is not durable yet
  time.set_mark(mark);
  CHECK(time.stamped() == begin + kLong);
}

TEST_CASE("engine time that leads the wall clock never goes back, stamped or not") {
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

TEST_CASE("a key expires in time while the manifest cannot be written") {
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

TEST_CASE("a manifest that is busy for long: reads use the current time, and stamps stay at the mark") {
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

TEST_CASE("a merge removes expired entries only after the mark has passed the expiry") {
  Harness h;
  h.open();
  h.put(0, "a", "expires", h.db->now() + kExpiry);
  h.put(0, "b", "is overwritten");
  REQUIRE(h.db->flush(0).is_ok());
  h.put(0, "b", "stays");
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  h.clock.advance(kLong);  // no tick: the mark is where it was
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
  h.advance(1000);  // files that merges replaced are removed
  h.settle();
  CHECK(h.get(0, "a") == "(absent)");
  CHECK(h.table_bytes().find("expires") == std::string::npos);
}

// The only case in which an expired key is read again; every other start begins at or after the expiry.
TEST_CASE("after a crash a key that had expired past the mark is read again only if the wall clock was set back") {
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

TEST_CASE("a deadline that passes while the manifest cannot be written is counted as missed at once, by disk") {
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
