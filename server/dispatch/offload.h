// Threads for what may take long: commands that walk a database, waits for the log to be synced.
//
// Classes with threads and a queue each, so that none waits behind the work of another: short work is bounded (a SCAN step, a
// read that goes to the disk again and again), long work walks whole databases or waits for background work to end, and waits for
// a sync follow each other in the order of the log, for which one thread is enough. Long writes (long_write.h) are bounded, too,
// but others may wait for their keys: they queue behind each other only.
//
// Work whose client has gone is not wanted any more: it is not begun, and drops out of its queue. So what is queued is bounded by
// the clients, at most one piece each.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "resp/disposal.h"

namespace ebbtide {

/// A piece of work. Its methods may be called on any thread.
class OffloadWork {
 public:
  virtual ~OffloadWork() = default;
  /// Once at most, and never when wanted() was false before.
  virtual void run() = 0;
  [[nodiscard]] virtual bool wanted() const { return true; }
};

enum class OffloadClass : std::uint8_t { kShort, kLong, kSync, kWrite };

/// Where dispatch sends work that would hold up an event loop. Thread-safe.
class Offload {
 public:
  virtual ~Offload() = default;
  /// Runs `work` once if it is still wanted, on some other thread, or on this one before it returns.
  virtual void submit(OffloadClass kind, std::shared_ptr<OffloadWork> work) = 0;
};

/// A fixed number of threads for each class.
class ThreadOffload final : public Offload {
 public:
  static constexpr std::size_t kClasses = 4;

  /// At least one each; as many for long writes as for long work.
  ThreadOffload(unsigned short_threads, unsigned long_threads);
  /// Runs what is queued and wanted, then stops.
  ~ThreadOffload() override;

  void submit(OffloadClass kind, std::shared_ptr<OffloadWork> work) override;
  /// Pieces that are queued and not begun.
  [[nodiscard]] std::size_t queued(OffloadClass kind) const;

 private:
  static constexpr std::size_t kPruneFrom = 64;

  struct Queue {
    mutable std::mutex mutex;
    std::condition_variable changed;
    // Guarded by mutex.
    std::deque<std::shared_ptr<OffloadWork>> work;
    std::size_t prune_at = kPruneFrom;
    bool stopping = false;

    std::vector<std::thread> threads;
  };

  static void run(Queue& queue);

  std::array<Queue, kClasses> queues_;
};

/// Frees what event loops hand over on the threads of long writes.
class OffloadDisposer final : public Disposer {
 public:
  explicit OffloadDisposer(Offload& offload) : offload_(offload) {}
  void dispose(std::shared_ptr<const void> garbage) override;

 private:
  Offload& offload_;
};

/// Runs everything at once on the caller's thread. For tests and single-threaded tools.
class InlineOffload final : public Offload {
 public:
  void submit(OffloadClass, std::shared_ptr<OffloadWork> work) override { work->run(); }
};

}  // namespace ebbtide
