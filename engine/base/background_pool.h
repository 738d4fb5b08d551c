// The interface for background work. The server uses threads; tests use a queue whose tasks they run step by step.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace ebbtide {

enum class Priority : std::uint8_t { kHigh, kLow };  ///< high: flushes; low: compactions and their parts

/// Thread-safe.
class BackgroundPool {
 public:
  using Task = std::function<void()>;
  virtual ~BackgroundPool() = default;
  virtual void submit(Priority priority, Task task) = 0;
  /// Number of tasks that can run at once; at least 1.
  [[nodiscard]] virtual unsigned width() const = 0;
  /// Runs one queued task on the calling thread; returns false if there is none. A task that waits for tasks that it has
  /// submitted calls run_one() instead of blocking.
  virtual bool run_one() = 0;
};

/// Owns its threads. `nice` is added to the nice value of the calling thread; a greater value is a lower priority. The destructor
/// calls stop().
class ThreadPool final : public BackgroundPool {
 public:
  ThreadPool(unsigned threads, std::string name, int nice);
  ~ThreadPool() override;
  void submit(Priority priority, Task task) override;
  /// Drops tasks that have not started, and waits for running tasks. Later submit() calls drop their task. A task of the pool
  /// must not call stop().
  void stop();
  [[nodiscard]] unsigned width() const override { return static_cast<unsigned>(threads_.size()); }
  bool run_one() override;

 private:
  void run();
  bool take(Task* task) REQUIRES(mutex_);
  Mutex mutex_;
  CondVar wake_;
  std::deque<Task> high_ GUARDED_BY(mutex_), low_ GUARDED_BY(mutex_);
  bool stop_ GUARDED_BY(mutex_) = false;
  std::string name_;
  std::vector<std::thread> threads_;
};

/// Runs tasks only when the test calls a run function, tasks of high priority first.
class ManualPool final : public BackgroundPool {
 public:
  void submit(Priority priority, Task task) override;
  [[nodiscard]] unsigned width() const override { return 1; }
  bool run_one() override;
  /// Runs tasks until none is queued.
  void run_all() {
    while (run_one()) {
    }
  }
  [[nodiscard]] std::size_t queued() const;

 private:
  mutable Mutex mutex_;
  std::deque<Task> high_ GUARDED_BY(mutex_), low_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
