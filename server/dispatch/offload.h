// Threads for work that would delay an event loop: walks over a database, long writes, waits for the log's sync.
//
// Each class of work has its own threads and queue, so that no class waits for another.
//   - Short work is limited, such as a SCAN step, or a read that repeatedly misses pages.
//   - Long work walks whole databases, or waits for background work to end.
//   - Waits for a sync end in the order of the log, so one thread is enough for all of them.
//   - Long writes (long_write.h) are limited, too, but other commands may wait for their keys. So long writes wait for no other
//     class.
//   - Administrative commands have their own threads, so that CLIENT KILL and ACL SETUSER can end work that keeps the others
//     busy. ACL SETUSER may match subscriptions for seconds, so the threads of kControl have a lower priority than the event
//     loops.
//   - Checks of rights can keep any number of threads busy, so their threads have a low priority. Users take turns in the queue,
//     so that the checks of one user do not delay those of another.
//
// Work is unwanted once its client has disconnected: it leaves its queue without running. A client has at most one work item, so
// the number of clients limits the queues.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "resp/disposal.h"

namespace ebbtide {

/// A work item. Any thread may call its methods.
class OffloadWork {
 public:
  virtual ~OffloadWork() = default;
  /// Does the work. Called at most once, and not after wanted() has returned false.
  virtual void run() = 0;
  [[nodiscard]] virtual bool wanted() const { return true; }
  /// Returns a number that identifies the owner of this item. Owners take turns in the queue, however many items each of them
  /// has. Never changes.
  [[nodiscard]] virtual std::uint64_t owner() const { return 0; }
};

enum class OffloadClass : std::uint8_t {
  kShort,
  kLong,
  kSync,
  kWrite,
  kControl,    ///< commands that change users and settings: ACL SETUSER, CONFIG SET
  kClients,    ///< commands that list and close connections: CLIENT LIST, CLIENT KILL
  kCheck,      ///< the first part of a check of rights, which has a limit (rights_check.h)
  kLongCheck,  ///< checks of rights that exceeded that limit
  kScript,     ///< scripts, which may run without end
};

/// Runs work that would delay an event loop. Thread-safe.
class Offload {
 public:
  virtual ~Offload() = default;
  /// Runs `work` once if its client still wants it: later on another thread, or on this thread before submit() returns.
  virtual void submit(OffloadClass kind, std::shared_ptr<OffloadWork> work) = 0;
};

/// A fixed number of threads for each class.
class ThreadOffload final : public Offload {
 public:
  static constexpr std::size_t kClasses = 9;

  /// Starts at least one thread for each class. kWrite, kControl and kScript have `long_threads` threads, too. `collect` returns
  /// memory to the system that the calling thread allocated and other threads freed; null: that memory is not returned.
  ThreadOffload(unsigned short_threads, unsigned long_threads, std::function<void()> collect = nullptr);
  /// Runs the queued work that is still wanted, then stops.
  ~ThreadOffload() override;

  void submit(OffloadClass kind, std::shared_ptr<OffloadWork> work) override;
  /// Makes each thread call `collect` soon: an idle one at once, a busy one after its work item.
  void collect();
  /// Returns the number of work items of this class that wait in the queue.
  [[nodiscard]] std::size_t queued(OffloadClass kind) const;

 private:
  static constexpr std::size_t kPruneFrom = 64;

  struct Queue {
    mutable std::mutex mutex;
    std::condition_variable changed;
    // Guarded by mutex.
    std::unordered_map<std::uint64_t, std::deque<std::shared_ptr<OffloadWork>>> work;  ///< by owner; none is empty
    std::deque<std::uint64_t> turns;                                                   ///< the owners in `work`
    std::size_t size = 0;                                                              ///< work items in `work`
    std::size_t prune_at = kPruneFrom;
    bool stopping = false;
    std::uint64_t collections = 0;  ///< number of calls of ThreadOffload::collect()

    std::vector<std::thread> threads;
    int nice = 0;  ///< added to the nice value of the thread that starts them; constant

    // The caller holds the mutex.
    void push(std::shared_ptr<OffloadWork> piece);
    std::shared_ptr<OffloadWork> pop();
    /// Moves work items that no client wants any more to `dropped`.
    void prune(std::vector<std::shared_ptr<OffloadWork>>* dropped);
  };

  /// Throws std::system_error if the system has no room for another thread; all threads have ended then.
  void start_thread(Queue& queue);
  /// Ends all threads once they have done the queued work.
  void stop();
  void run(Queue& queue) const;

  const std::function<void()> collect_;
  std::array<Queue, kClasses> queues_;
};

/// Frees memory for the event loops, on the threads of long writes.
class OffloadDisposer final : public Disposer {
 public:
  explicit OffloadDisposer(Offload& offload) : offload_(offload) {}
  void dispose(std::shared_ptr<const void> garbage) override;

 private:
  Offload& offload_;
};

}  // namespace ebbtide
