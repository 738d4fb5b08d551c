// The queue between commits and the log, with its own thread: the writer of queued operations, and the state after failures.
#include "db/log_queue.h"

#include <thread>

#include <catch2/catch.hpp>

#include "engine/db/harness.h"
#include "wal/batch_group.h"
#include "wal/log_reader.h"

using namespace ebbtide;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// A sync of a segment waits at a gate that the test opens.
class GatedFileSystem final : public InterposedFileSystem {
 public:
  explicit GatedFileSystem(FileSystem& base) : InterposedFileSystem(base) {}
  std::function<void()> on_sync;                      ///< set before use
  std::function<void(std::uint64_t bytes)> on_write;  ///< set before use

  void close_gate() {
    MutexLock lock(mutex_);
    open_ = false;
  }
  void open_gate() {
    MutexLock lock(mutex_);
    open_ = true;
    moved_.notify_all();
  }
  void await_somebody() {
    MutexLock lock(mutex_);
    while (waiting_ == 0) moved_.wait(mutex_);
  }

 private:
  Status around(const FileCall& call, const Run& run) override {
    if (call.op == FileOp::kWrite && call.path.ends_with(".wal") && on_write) on_write(call.length);
    if (call.op == FileOp::kSync && call.path.ends_with(".wal")) {
      if (on_sync) on_sync();
      MutexLock lock(mutex_);
      ++waiting_;
      moved_.notify_all();
      while (!open_) moved_.wait(mutex_);
      --waiting_;
    }
    return run(call.length);
  }
  Mutex mutex_;
  CondVar moved_;
  bool open_ = true;
  int waiting_ = 0;
};

struct Log {
  explicit Log(FsyncMode fsync, std::uint64_t segment_bytes = 1 << 20, std::uint64_t longest_gather_ns = 0)
      : gate(files), faults(gate) {
    REQUIRE(files.create_dir("data").is_ok());
    LogQueueOptions options;
    options.fs = &faults;
    options.dir = "data";
    options.clock = &clock;
    options.fsync = fsync;
    options.segment_bytes = segment_bytes;
    options.longest_gather_ns = longest_gather_ns;
    options.new_file = [this] { return ++last_file; };
    queue = std::make_unique<LogQueue>(std::move(options));
  }
  ~Log() { gate.open_gate(); }
  void start() { REQUIRE(queue->start({}, 0).is_ok()); }
  SeqNum put() {
    WriteBatch batch;
    batch.put(0, "key", std::string(100, 'v'));
    const SeqNum seq = ++last_seq;
    batch.set_header(seq, 1, 0);
    const LogNote note{1, 0, 0};
    queue->enqueue(batch, std::span(&note, 1));
    return seq;
  }
  MemoryFileSystem files;
  GatedFileSystem gate;
  FaultFileSystem faults;
  SimulatedClock clock;
  std::atomic<FileNum> last_file{0};
  std::atomic<SeqNum> last_seq{0};
  std::unique_ptr<LogQueue> queue;
};

// The awaited thread does not wait itself, so this ends early except on a fault.
template <typename Done>
bool eventually(Done done) {
  const std::uint64_t until = system_clock()->mono_ns() + 10'000'000'000ull;
  while (!done()) {
    if (system_clock()->mono_ns() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEST_CASE("operations queued during a sync are written even if no pass ends after it", "[threads]") {
  Log log(FsyncMode::kEverySecond);
  log.start();
  const SeqNum first = log.put();
  log.gate.close_gate();
  std::thread waiter([&] { CHECK(log.queue->wait_synced(first).is_ok()); });
  log.gate.await_somebody();
  const SeqNum second = log.put();
  log.queue->write();
  CHECK(log.queue->logged_seq() == first);
  log.gate.open_gate();
  waiter.join();
  CHECK(eventually([&] { return log.queue->logged_seq() == second; }));
}

TEST_CASE("a prepared large batch is written by the log thread in the order of seqs", "[threads][staged]") {
  const FsyncMode fsync = GENERATE(FsyncMode::kEverySecond, FsyncMode::kAlways);
  constexpr std::size_t kLarge = 1 << 20;
  Log log(fsync, 64 << 20);
  std::atomic<int> large_writes{0}, by_loop{0};
  const std::thread::id loop = std::this_thread::get_id();
  log.gate.on_write = [&](std::uint64_t bytes) {
    if (bytes < kLarge) return;
    large_writes += 1;
    by_loop += std::this_thread::get_id() == loop ? 1 : 0;
  };
  log.start();
  for (int round = 0; round < 20; ++round) {
    (void)log.put();
    WriteBatch batch;
    for (std::size_t i = 0; i < kLarge / 1000; ++i) batch.put(0, "key", std::string(1000, 'v'), {});
    batch.put_shared(0, "shared", std::make_shared<const std::string>(std::string(kLarge, 's')), {});
    LogQueue::Prepared prepared = LogQueue::prepare(batch);
    batch.set_header(log.last_seq + 1, 1, 0);  // drawn after the copy
    log.last_seq += batch.count();
    const LogNote note{1, 0, 0};
    log.queue->enqueue(batch, std::move(prepared), std::span(&note, 1));
    (void)log.put();
    log.queue->write();
    REQUIRE(log.queue->wait_durable(log.last_seq).is_ok());
  }
  CHECK(large_writes == 20);
  CHECK(by_loop == 0);
  CHECK(log.queue->close().is_ok());
  SeqNum next = 1;
  const auto on_record = [&](std::string payload, std::uint64_t) {
    return each_batch(payload, [&](Bytes bytes) -> Status {
      TRY_ASSIGN(batch, WriteBatch::parse(std::string(bytes)));
      CHECK(batch.first_seq() == next);
      next = batch.last_seq() + 1;
      return Status::ok();
    });
  };
  CHECK(read_log(log.files, "data", log.last_file, on_record).is_ok());
  CHECK(next == log.last_seq + 1);
}

TEST_CASE("under `always` segments are switched even if there is always more to write", "[threads]") {
  Log log(FsyncMode::kAlways, 4096);
  constexpr SeqNum kBatches = 300;
  log.gate.on_sync = [&] {
    if (log.last_seq < kBatches) (void)log.put();  // another commit arrives during each sync
  };
  log.start();
  (void)log.put();
  log.queue->write();
  CHECK(eventually([&] { return log.queue->durable_seq() >= kBatches; }));
  CHECK(log.queue->take_segments_below(log.queue->oldest_needed(kBatches + 1)).size() >= 5);
}

namespace {

/// Syncs one put. Then the next sync waits: another put is queued, and the first put's client is expected again.
void sync_once_and_gather(Log& log) {
  log.gate.on_sync = [&log] {
    if (log.last_seq == 1) (void)log.put();
    log.clock.advance(8 * 3600 * 1000);
  };
  log.start();
  (void)log.put();
  log.queue->write();
  REQUIRE(eventually([&] { return log.queue->gathering(); }));
  CHECK(log.queue->durable_seq() == 1);
}

}  // namespace

TEST_CASE("under `always` a sync waits for the clients that the previous one released", "[threads]") {
  Log log(FsyncMode::kAlways, 1 << 20, 3600 * kSecond);
  sync_once_and_gather(log);
  const SeqNum third = log.put();  // the first client has its reply and writes again
  log.queue->write();
  CHECK(eventually([&] { return log.queue->durable_seq() == third; }));
  CHECK(log.queue->syncs() == 2);  // the second and the third were synced together
  CHECK(log.queue->close().is_ok());
}

TEST_CASE("the log closes while a sync waits for more clients", "[threads]") {
  Log log(FsyncMode::kAlways, 1 << 20, 3600 * kSecond);
  sync_once_and_gather(log);
  CHECK(log.queue->close().is_ok());
  CHECK(log.queue->durable_seq() == 2);
}

TEST_CASE("the log fails and starts a new segment while a sync of the old one runs", "[threads]") {
  Log log(FsyncMode::kEverySecond);
  log.start();
  (void)log.put();
  log.queue->write();
  log.gate.close_gate();
  log.clock.advance(1500);
  log.gate.await_somebody();
  FileFault fault;
  fault.ops = ops_of(FileOp::kWrite);
  fault.path_has = ".wal";
  log.faults.inject(fault);
  const SeqNum lost = log.put();
  log.queue->write();
  CHECK_FALSE(log.queue->status().is_ok());
  std::thread healer([&] {
    CHECK(log.queue->prepare_restart().is_ok());
    log.queue->restart_after_failure(lost);
  });
  log.gate.open_gate();
  healer.join();
  CHECK(log.queue->status().is_ok());
  const SeqNum next = log.put();
  log.queue->write();
  CHECK(log.queue->wait_synced(next).is_ok());
  CHECK(log.queue->status().is_ok());
}

TEST_CASE("the log fails during a sync: written operations become durable if that sync succeeds, and not if it fails",
          "[threads]") {
  const bool sync_fails = GENERATE(false, true);
  Log log(FsyncMode::kEverySecond);
  log.start();
  (void)log.put();
  log.queue->write();
  FileFault fault;
  fault.path_has = ".wal";
  if (sync_fails) {
    fault.ops = ops_of(FileOp::kSync);
    log.faults.inject(fault);
  }
  log.gate.close_gate();
  log.clock.advance(1500);
  if (!sync_fails) log.gate.await_somebody();
  const SeqNum written = log.put();
  log.queue->write();
  fault.ops = ops_of(FileOp::kWrite);
  log.faults.inject(fault);
  (void)log.put();
  log.queue->write();
  CHECK(eventually([&] { return log.queue->failed(); }));
  std::thread healer([&] { log.queue->salvage(); });
  log.gate.open_gate();
  healer.join();
  CHECK_FALSE(log.queue->status().is_ok());
  CHECK(log.queue->synced_seq() == (sync_fails ? 0 : written));
}

TEST_CASE("a change to `always` syncs operations that were only written", "[threads]") {
  Log log(FsyncMode::kNo);
  log.start();
  const SeqNum seq = log.put();
  log.queue->write();
  CHECK(eventually([&] { return log.queue->durable_seq() == seq; }));  // the thread's first round may have taken it
  CHECK(log.queue->synced_seq() == 0);
  log.queue->set_fsync(FsyncMode::kAlways);
  CHECK(eventually([&] { return log.queue->durable_seq() == seq; }));
}

TEST_CASE("close() ends all waits for a sync", "[threads]") {
  Log log(FsyncMode::kNo);
  log.start();
  const SeqNum seq = log.put();
  log.gate.close_gate();
  std::thread waiter([&] { CHECK(log.queue->wait_synced(seq).is_ok()); });
  log.gate.await_somebody();
  std::thread closer([&] { CHECK(log.queue->close().is_ok()); });
  log.gate.open_gate();
  closer.join();
  waiter.join();
}

TEST_CASE("a segment's obligations are the deletes in it and in later segments, of its own trees") {
  std::vector<LogQueue::Segment> segments(3);
  segments[0].notes = {{1, 0, 500}, {2, 70, 0}};
  segments[1].notes = {{2, 60, 0}, {3, 0, 90}};
  segments[2].notes = {{3, 0, 0}, {1, 80, 0}};
  CHECK(log_debts(segments, 100) == std::vector<std::vector<Millis>>{{80, 60}, {60, 90}, {0, 80}});
  CHECK(log_debts(segments, 85) == std::vector<std::vector<Millis>>{{80, 60}, {60, 0}, {0, 80}});
  CHECK(log_debts(segments, 600)[0][0] == 80);
  CHECK(log_debts({}, 100).empty());
}
