// Threads for what may take long: commands that walk a database, waits for the log to be synced.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ebbtide {

/// Where dispatch sends work that would hold up an event loop. Thread-safe.
class Offload {
 public:
  virtual ~Offload() = default;
  /// Runs `work` once, on some other thread, or on this one before it returns.
  virtual void submit(std::function<void()> work) = 0;
};

/// A fixed number of threads and a queue. At most one piece of work per waiting client is queued, so clients bound it.
class ThreadOffload final : public Offload {
 public:
  explicit ThreadOffload(unsigned threads);
  /// Runs what is queued, then stops.
  ~ThreadOffload() override;

  void submit(std::function<void()> work) override;

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;

  std::vector<std::thread> threads_;
};

/// Runs everything at once on the caller's thread. For tests and single-threaded tools.
class InlineOffload final : public Offload {
 public:
  void submit(std::function<void()> work) override { work(); }
};

}  // namespace ebbtide
