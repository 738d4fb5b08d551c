// Tests of group commit with its own thread: which thread writes queued batches, when a sync is delayed, and the state after a
// failure.
#include "wal/group_commit.h"

#include <thread>

#include <catch2/catch.hpp>

#include "base/clock.h"
#include "io/fault_fs.h"
#include "io/memory_fs.h"
#include "wal/batch_group.h"
#include "wal/log_reader.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kSecond = 1'000'000'000;

// Makes a sync of a segment wait at a gate that the test opens.
class GatedFileSystem final : public InterposedFileSystem {
 public:
  explicit GatedFileSystem(FileSystem& base) : InterposedFileSystem(base) {}
  std::function<void()> on_sync;                      ///< set before use
  std::function<void(std::uint64_t bytes)> on_write;  ///< set before use
  std::string gated = ".wal";                         ///< a part of the paths whose syncs wait; set before use

  void close_gate() {
    MutexLock lock(mutex_);
    open_ = false;
  }
  void open_gate() {
    MutexLock lock(mutex_);
    open_ = true;
    moved_.notify_all();
  }
  /// Opens the gate. Waiting syncs return `result`.
  void open_gate_to(Status result) {
    MutexLock lock(mutex_);
    result_ = std::move(result);
    open_ = true;
    moved_.notify_all();
  }
  void await_sync() {
    MutexLock lock(mutex_);
    while (waiting_ == 0) moved_.wait(mutex_);
  }

 private:
  Status around(const FileCall& call, const Run& run) override {
    if (call.op == FileOp::kWrite && call.path.ends_with(".wal") && on_write) on_write(call.length);
    if (call.op == FileOp::kSync && call.path.ends_with(".wal")) {
      if (on_sync) on_sync();
      MutexLock lock(mutex_);
      if (call.path.find(gated) == std::string::npos) return run(call.length);
      ++waiting_;
      moved_.notify_all();
      while (!open_) moved_.wait(mutex_);
      --waiting_;
      if (!result_.is_ok()) return result_;
    }
    return run(call.length);
  }
  Mutex mutex_;
  CondVar moved_;
  bool open_ = true;
  int waiting_ = 0;
  Status result_;
};

struct Log {
  explicit Log(FsyncMode fsync, std::uint64_t segment_bytes = 1 << 20, std::uint64_t longest_delay_ns = 0, bool own_thread = true)
      : gate(files), faults(gate) {
    REQUIRE(files.create_dir("data").is_ok());
    GroupCommitOptions options;
    options.fs = &faults;
    options.dir = "data";
    options.clock = &clock;
    options.fsync = fsync;
    options.segment_bytes = segment_bytes;
    options.longest_delay_ns = longest_delay_ns;
    options.own_thread = own_thread;
    options.new_file = [this] { return ++last_file; };
    log = std::make_unique<GroupCommit>(std::move(options));
  }
  ~Log() { gate.open_gate(); }
  void start() { REQUIRE(log->start({}, 0).is_ok()); }
  /// Queues a batch and returns its seq. `prepared`: like a large batch, whose payload is copied before it is queued.
  SeqNum put(bool prepared = false) {
    WriteBatch batch;
    batch.put(0, "key", std::string(100, 'v'));
    const SeqNum seq = ++last_seq;
    batch.set_header(seq, 1, 0);
    const LogNote note{1, 0, 0};
    if (prepared) {
      log->enqueue(batch, GroupCommit::prepare(batch), std::span(&note, 1));
    } else {
      log->enqueue(batch, std::span(&note, 1));
    }
    return seq;
  }
  MemoryFileSystem files;
  GatedFileSystem gate;
  FaultFileSystem faults;
  SimulatedClock clock;
  std::atomic<FileNum> last_file{0};
  std::atomic<SeqNum> last_seq{0};
  std::unique_ptr<GroupCommit> log;
};

// Waits until `done` returns true. The timeout of 60 s is reached only if there is a fault, since nothing blocks the log thread.
template <typename Done>
bool eventually(Done done) {
  const std::uint64_t until = system_clock()->mono_ns() + 60'000'000'000ull;
  while (!done()) {
    if (system_clock()->mono_ns() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST_CASE("batch is queued during a sync, and no event loop writes it: the log thread writes it", "[threads]") {
  Log log(FsyncMode::kEverySecond);
  log.start();
  const SeqNum first = log.put();
  log.gate.close_gate();
  std::thread waiter([&] { CHECK(log.log->wait_synced(first).is_ok()); });
  log.gate.await_sync();
  const SeqNum second = log.put();
  log.log->write();
  CHECK(log.log->logged_seq() == first);
  log.gate.open_gate();
  waiter.join();
  CHECK(eventually([&] { return log.log->logged_seq() == second; }));
}

TEST_CASE("log thread writes a prepared large batch beside other writers: records are in the order of seqs",
          "[threads][staged]") {
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
    GroupCommit::Prepared prepared = GroupCommit::prepare(batch);
    batch.set_header(log.last_seq + 1, 1, 0);  // the header is made after the copy
    log.last_seq += batch.count();
    const LogNote note{1, 0, 0};
    log.log->enqueue(batch, std::move(prepared), std::span(&note, 1));
    (void)log.put();
    log.log->write();
    REQUIRE(log.log->wait_durable(log.last_seq).is_ok());
  }
  CHECK(large_writes == 20);
  CHECK(by_loop == 0);
  CHECK(log.log->close().is_ok());
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

TEST_CASE("fsync is always and the queue is never empty: full segments are still ended", "[threads]") {
  constexpr SeqNum kBatches = 300;
  // start() syncs the first segment, too. A put() in that sync would run beside the put() below, which is not allowed.
  std::atomic<bool> started{false};
  Log log(FsyncMode::kAlways, 4096);  // its destructor syncs, too
  log.gate.on_sync = [&] {
    if (started && log.last_seq < kBatches) (void)log.put();  // a client commits during each sync
  };
  log.start();
  started = true;
  (void)log.put();
  log.log->write();
  CHECK(eventually([&] { return log.log->durable_seq() >= kBatches; }));
  CHECK(log.log->take_segments_below(log.log->oldest_needed(kBatches + 1)).size() >= 5);
}

/// Syncs one put, while a second one is queued. The next sync is then delayed, since another put of the first client is expected.
void sync_once_and_delay(Log& log) {
  log.gate.on_sync = [&log] {
    if (log.last_seq == 1) (void)log.put();
    log.clock.advance(8 * 3600 * 1000);
  };
  log.start();
  (void)log.put();
  log.log->write();
  REQUIRE(eventually([&] { return log.log->delays_sync(); }));
  CHECK(log.log->durable_seq() == 1);
}

TEST_CASE("fsync is always: a sync waits for the next commands of clients that the previous sync answered", "[threads]") {
  Log log(FsyncMode::kAlways, 1 << 20, 3600 * kSecond);
  sync_once_and_delay(log);
  const SeqNum third = log.put();  // the next command of the first client, which has its reply
  log.log->write();
  CHECK(eventually([&] { return log.log->durable_seq() == third; }));
  CHECK(log.log->syncs() == 2);  // the second and the third operation shared a sync
  CHECK(log.log->close().is_ok());
}

TEST_CASE("log is closed while a sync is delayed: close() ends the delay", "[threads]") {
  Log log(FsyncMode::kAlways, 1 << 20, 3600 * kSecond);
  sync_once_and_delay(log);
  CHECK(log.log->close().is_ok());
  CHECK(log.log->durable_seq() == 2);
}

TEST_CASE("failed log restarts while the old segment is being synced: writes to the new segment succeed", "[threads]") {
  Log log(FsyncMode::kEverySecond);
  log.start();
  (void)log.put();
  log.log->write();
  log.gate.close_gate();
  log.clock.advance(1500);
  log.gate.await_sync();
  FileFault fault;
  fault.ops = ops_of(FileOp::kWrite);
  fault.path_has = ".wal";
  log.faults.inject(fault);
  const SeqNum lost = log.put();
  log.log->write();
  CHECK_FALSE(log.log->status().is_ok());
  std::thread healer([&] {
    CHECK(log.log->prepare_restart().is_ok());
    log.log->restart_after_failure(lost);
  });
  log.gate.open_gate();
  healer.join();
  CHECK(log.log->status().is_ok());
  const SeqNum next = log.put();
  log.log->write();
  CHECK(log.log->wait_synced(next).is_ok());
  CHECK(log.log->status().is_ok());
}

TEST_CASE("sync of the old segment fails after the log has restarted: writes to the new segment succeed", "[threads]") {
  Log log(FsyncMode::kEverySecond);
  log.gate.gated = "000001.wal";
  log.start();
  (void)log.put();
  log.log->write();
  log.gate.close_gate();
  log.clock.advance(1500);
  log.gate.await_sync();
  log.faults.inject({.ops = ops_of(FileOp::kWrite), .path_has = ".wal"});
  const SeqNum lost = log.put();
  log.log->write();
  REQUIRE(log.log->failed());
  REQUIRE(log.log->prepare_restart().is_ok());
  log.log->restart_after_failure(lost);
  log.gate.open_gate_to(Status::io_error("a device that was removed"));
  const SeqNum next = log.put();
  log.log->write();
  CHECK(log.log->wait_synced(next).is_ok());
  CHECK(log.log->status().is_ok());
}

TEST_CASE("batch is queued but not written: notes of the current segment list the batch's deletes already", "[staged]") {
  Log log(FsyncMode::kEverySecond, 1 << 20, 0, false);
  log.start();
  const auto tombstone = [&] {
    WriteBatch batch;
    batch.del(0, "key");
    batch.set_header(++log.last_seq, 1, 0);
    return batch;
  };
  const auto birth_of = [&](TreeId tree) {
    const LogNotes notes = log.log->segments().back().notes;
    for (const LogNote& note : notes) {
      if (note.tree == tree) return note.oldest_delete;
    }
    return Millis{0};
  };
  const LogNote first{1, 1000, 0}, second{2, 2000, 0}, third{3, 3000, 0};
  log.log->enqueue(tombstone(), std::span(&first, 1));
  CHECK(birth_of(1) == 1000);
  const WriteBatch large = tombstone();
  log.log->enqueue(large, GroupCommit::prepare(large), std::span(&second, 1));  // makes both groups wait
  log.log->enqueue(tombstone(), std::span(&third, 1));
  CHECK((birth_of(1) == 1000 && birth_of(2) == 2000 && birth_of(3) == 3000));
  CHECK(log.log->logged_seq() == 0);
  log.log->write();
  CHECK(log.log->logged_seq() == 3);
  CHECK((birth_of(1) == 1000 && birth_of(2) == 2000 && birth_of(3) == 3000));
}

TEST_CASE("log fails: salvage() syncs the records before the failure, unless a sync has failed", "[threads]") {
  const bool sync_fails = GENERATE(false, true);
  Log log(FsyncMode::kEverySecond);
  log.start();
  (void)log.put();
  log.log->write();
  FileFault fault;
  fault.path_has = ".wal";
  if (sync_fails) {
    fault.ops = ops_of(FileOp::kSync);
    log.faults.inject(fault);
  }
  log.gate.close_gate();
  log.clock.advance(1500);
  if (!sync_fails) log.gate.await_sync();
  const SeqNum written = log.put();
  log.log->write();
  fault.ops = ops_of(FileOp::kWrite);
  log.faults.inject(fault);
  (void)log.put();
  log.log->write();
  CHECK(eventually([&] { return log.log->failed(); }));
  std::thread healer([&] { log.log->salvage(); });
  log.gate.open_gate();
  healer.join();
  CHECK_FALSE(log.log->status().is_ok());
  CHECK(log.log->synced_seq() == (sync_fails ? 0 : written));
}

TEST_CASE("fsync changes to always: data that was only written is synced", "[threads]") {
  Log log(FsyncMode::kNo);
  log.start();
  const SeqNum seq = log.put();
  log.log->write();
  CHECK(eventually([&] { return log.log->durable_seq() == seq; }));  // the thread's first pass may have written it
  CHECK(log.log->synced_seq() == 0);
  log.log->set_fsync(FsyncMode::kAlways);
  CHECK(eventually([&] { return log.log->durable_seq() == seq; }));
}

TEST_CASE("batch is queued while close() syncs: close() writes and syncs the batch, too", "[threads]") {
  const bool prepared = GENERATE(false, true);
  Log log(FsyncMode::kNo);
  log.start();
  (void)log.put();
  log.gate.close_gate();
  std::thread closer([&] { CHECK(log.log->close().is_ok()); });
  log.gate.await_sync();
  const SeqNum seq = log.put(prepared);
  std::thread waiter([&] { CHECK(log.log->wait_synced(seq).is_ok()); });
  log.gate.open_gate();
  closer.join();
  waiter.join();
  CHECK(log.log->synced_seq() == seq);
}

TEST_CASE("log is closed while threads wait for a sync: the threads return", "[threads]") {
  Log log(FsyncMode::kNo);
  log.start();
  const SeqNum seq = log.put();
  log.gate.close_gate();
  std::thread waiter([&] { CHECK(log.log->wait_synced(seq).is_ok()); });
  log.gate.await_sync();
  std::thread closer([&] { CHECK(log.log->close().is_ok()); });
  log.gate.open_gate();
  closer.join();
  waiter.join();
}

}  // namespace TEST_FILE
