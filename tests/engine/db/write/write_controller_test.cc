// Tests of the delays and refusals that follow from a pressure. There is no database: load, background tasks and time are
// arguments.
#include "db/write/write_controller.h"

#include <catch2/catch.hpp>
#include <thread>

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kMs = 1'000'000;

WriteBatch put(std::size_t bytes) {
  WriteBatch batch;
  batch.put(0, "k", std::string(bytes, 'v'));
  return batch;
}
WriteBatch del() {
  WriteBatch batch;
  batch.del(0, "k");
  return batch;
}
WriteBatch flush() {
  WriteBatch batch;
  batch.flush_database(0);
  return batch;
}

/// A controller without threads. It has one tree, whose runs cause the pressure: none up to 10 runs, a stop at 110.
struct Fixture {
  SimulatedClock clock{1'000'000};
  int runs = 0, tasks = 0, divided = 0;
  bool compactions_fail = false, memory_spent = false, closing = false;
  std::uint64_t pending_drops = 0;
  std::function<void()> task;  ///< called by each background task; may be null
  Status status;
  WriteController writes{{.clock = &clock,
                          .threads = false,
                          .load = [this] { return load(); },
                          .divide = [this](const MemoryUse&) { ++divided; },
                          .write_status = [this] { return status; },
                          .closing = [this] { return closing; },
                          .pending_drops = [this] { return pending_drops; },
                          .run_task = [this] { return run_task(); }}};

  [[nodiscard]] WriteLoad load() const {
    WriteLoad load;
    load.trees = {{.runs = runs, .slowdown_runs = 10, .stop_runs = 110, .compactions_fail = compactions_fail}};
    load.memtable_size = 1 << 20;
    load.memory_budget = 1 << 20;
    if (memory_spent) load.charged_bytes = 2 << 20;
    return load;
  }
  void press(int permille) {
    runs = 10 + permille / 10;
    writes.measure();
  }
  bool run_task() {
    if (tasks == 0) return false;
    --tasks;
    if (task) task();
    return true;
  }
};

TEST_CASE("pressure is 0: no write waits") {
  Fixture f;
  f.writes.measure();
  CHECK(f.divided == 1);
  CHECK(f.writes.await(put(1'000'000)).is_ok());
  CHECK(f.writes.delay_ms(put(1'000'000), false) == 0);
  CHECK_FALSE(f.writes.stopped());
}

TEST_CASE("pressure p (0 to 1) rises: each byte is delayed by p times 200 ns, and far longer above p = 0.8") {
  struct Row {
    int permille;
    std::uint64_t ns_per_byte;
  };
  for (const Row& row : std::vector<Row>{{100, 20}, {500, 100}, {800, 160}, {900, 1935}}) {
    INFO(row.permille);
    Fixture f;
    f.press(row.permille);
    const WriteBatch batch = put(10'000);
    const std::uint64_t price = batch.payload_bytes() * row.ns_per_byte;
    CHECK(f.writes.delay_ms(batch, false) == price / kMs);
    CHECK(f.writes.stalled_ns(StallReason::kRuns) == price);
  }
}

TEST_CASE("callers do not sleep: each gets the time to wait after those before it, at most 100 ms") {
  Fixture f;
  f.press(500);
  const WriteBatch batch = put(100'000);
  const std::uint32_t first = f.writes.delay_ms(batch, false);
  CHECK(first == 10);
  CHECK(f.writes.delay_ms(batch, false) == 2 * first);
  CHECK(f.writes.delay_ms(batch, true) == 0);
  for (int i = 0; i < 100; ++i) CHECK(f.writes.delay_ms(batch, false) <= 100);
  f.clock.advance(1'000);  // the queue is empty again
  CHECK(f.writes.delay_ms(batch, false) == first);
}

TEST_CASE("delays add up to a millisecond: a caller that may sleep does so, and the time counts as a stall") {
  Fixture f;
  f.press(500);
  const WriteBatch batch = put(6'000);  // 0.6 ms
  CHECK(f.writes.await(batch).is_ok());
  CHECK(f.writes.stalled_ns(StallReason::kRuns) == 0);
  CHECK(f.writes.await(batch).is_ok());
  CHECK(f.writes.stalled_ns(StallReason::kRuns) == kMs);
}

TEST_CASE("writes are stopped: a waiting caller runs background tasks until the pressure has fallen") {
  Fixture f;
  f.press(1000);
  CHECK(f.writes.stopped());
  CHECK(f.writes.delay_ms(put(1), false) == 10);
  CHECK(f.writes.delay_ms(put(1), true) == 10);
  f.tasks = 3;
  f.task = [&f] { f.press(f.tasks == 0 ? 0 : 1000); };
  CHECK(f.writes.await(put(1)).is_ok());
  CHECK(f.tasks == 0);
  CHECK_FALSE(f.writes.stopped());
}

TEST_CASE("there are no background tasks: a caller measures the pressure once more and does not wait for the stop's end") {
  Fixture f;
  f.press(1000);
  CHECK(f.writes.await(put(1)).is_ok());
  CHECK(f.divided == 2);
}

TEST_CASE("database becomes read-only during a stop: the waiting caller gets kReadOnly") {
  Fixture f;
  f.press(1000);
  f.tasks = 100;
  f.task = [&f] { f.status = Status::read_only("the disk failed"); };
  CHECK(f.writes.await(put(1)).code() == Code::kReadOnly);
  CHECK(f.tasks == 99);
}

TEST_CASE("compactions fail, so that a stop cannot end: writes of data are refused, and deletes pass") {
  Fixture f;
  f.compactions_fail = true;
  f.press(990);
  CHECK(f.writes.refuse(put(1), false).is_ok());
  CHECK_FALSE(f.writes.stuck());
  f.press(1000);
  CHECK(f.writes.stuck());
  CHECK(f.writes.refuse(put(1), false).code() == Code::kNoSpace);
  CHECK(f.writes.await(put(1)).code() == Code::kNoSpace);
  CHECK(f.writes.refuse(del(), false).is_ok());
  CHECK(f.writes.await(del()).is_ok());
  CHECK(f.writes.delay_ms(del(), false) == 0);
}

TEST_CASE("disk is full or memory is spent: writes that add data get kNoSpace or kOutOfMemory") {
  Fixture f;
  CHECK(f.writes.refuse(put(1), true).code() == Code::kNoSpace);
  CHECK(f.writes.refuse(del(), true).is_ok());
  CHECK(f.writes.refuse(flush(), true).is_ok());
  const auto put_compact = [](const WriteBatch::PutOptions& options) {
    WriteBatch batch;
    batch.put(0, "k", "items", options);
    return batch;
  };
  // A small collection that loses an item is written again; that is a delete.
  CHECK(f.writes.refuse(put_compact({.kind = EntryKind::kCompact, .debt = true, .shrinks = true}), true).is_ok());
  CHECK(f.writes.refuse(put_compact({.kind = EntryKind::kCompact, .debt = true}), true).code() == Code::kNoSpace);
  CHECK(f.writes.refuse(put_compact({.kind = EntryKind::kCompact}), true).code() == Code::kNoSpace);
  CHECK(f.writes.refuse(put_compact({.debt = true}), true).code() == Code::kNoSpace);
  f.memory_spent = true;
  f.writes.measure();
  CHECK(f.writes.refuse(put(1), false).code() == Code::kOutOfMemory);
  CHECK(f.writes.refuse(put(1), true).code() == Code::kNoSpace);
  CHECK(f.writes.refuse(del(), false).is_ok());
}

TEST_CASE("pressure stops writes: a FLUSHDB still passes, unless over 64 dropped trees wait for their removal") {
  Fixture f;
  f.press(1000);
  f.pending_drops = 64;
  CHECK(f.writes.delay_ms(flush(), false) == 0);
  CHECK(f.writes.await(flush()).is_ok());
  f.pending_drops = 65;
  CHECK(f.writes.delay_ms(flush(), true) == 10);
  f.tasks = 5;
  f.task = [&f] { f.pending_drops = f.tasks == 2 ? 64 : 65; };
  CHECK(f.writes.await(flush()).is_ok());
  CHECK(f.tasks == 2);
}

TEST_CASE("writes are stopped: the time of the stop is counted once, however many callers wait") {
  Fixture f;
  f.press(1000);
  CHECK(f.writes.stalled_ns(StallReason::kRuns) == 0);
  f.clock.advance(2'000);
  for (int i = 0; i < 10; ++i) (void)f.writes.delay_ms(put(1), i > 0);
  f.press(0);
  CHECK(f.writes.stalled_ns(StallReason::kRuns) == 2'000 * kMs);
  f.clock.advance(2'000);
  f.press(0);
  CHECK(f.writes.stalled_ns(StallReason::kRuns) == 2'000 * kMs);
}

TEST_CASE("pressure falls: a thread that waits for it continues", "[threads]") {
  SimulatedClock clock{1'000'000};
  std::atomic<int> runs{110};
  std::atomic<bool> waits{false};
  WriteController writes({.clock = &clock,
                          .threads = true,
                          .load =
                              [&] {
                                WriteLoad load;
                                load.trees = {{.runs = runs, .slowdown_runs = 10, .stop_runs = 110}};
                                load.memtable_size = load.memory_budget = 1 << 20;
                                return load;
                              },
                          .divide = [](const MemoryUse&) {},
                          .write_status = [] { return Status::ok(); },
                          .closing =
                              [&] {
                                waits = true;
                                return false;
                              },
                          .pending_drops = [] { return std::uint64_t{0}; },
                          .run_task = [] { return false; }});
  writes.measure();
  REQUIRE(writes.stopped());
  Status status = Status::busy("");
  std::thread writer([&] { status = writes.await(put(1)); });
  while (!waits) std::this_thread::yield();
  runs = 0;
  writes.measure();
  writer.join();
  CHECK(status.is_ok());
  CHECK_FALSE(writes.stopped());
}

TEST_CASE("batch can never be committed: check_batch() returns kInvalidArgument") {
  CHECK(check_batch(put(1'000), 16).is_ok());
  WriteBatch long_key;
  long_key.put(0, std::string(kMaxKeyBytes, 'k'), "v");
  CHECK(check_batch(long_key, 16).is_ok());
  long_key.put(0, std::string(kMaxKeyBytes + 1, 'k'), "v");
  CHECK(check_batch(long_key, 16).code() == Code::kInvalidArgument);
  WriteBatch flushes;
  for (int i = 0; i < 16 * 17; ++i) flushes.flush_database(0);  // 16 databases, each with 16 index trees
  CHECK(check_batch(flushes, 16).is_ok());
  flushes.flush_database(0);
  CHECK(check_batch(flushes, 16).code() == Code::kInvalidArgument);
  CHECK(check_batch(flushes, 1'000).is_ok());
}

}  // namespace TEST_FILE
