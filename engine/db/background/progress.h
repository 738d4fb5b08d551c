// Lets callers wait for background work: each progress (a flush, the end of a job, a failure) wakes them, and they check again.
#pragma once

#include <functional>
#include <utility>

#include <engine/status.h>
#include "base/mutex.h"

namespace ebbtide {

/// Wakes callers that wait for background work. Thread-safe.
class Progress {
 public:
  struct Env {
    Mutex* state_mutex = nullptr;   ///< guards the state that callers wait for
    bool threads = true;            ///< false: a waiting caller runs background tasks
    std::function<Status()> error;  ///< returns the error that has stopped background work; ok: it continues
    std::function<bool()> closing;
    std::function<bool()> run_task;  ///< runs a background task; returns false if there is none
  };

  explicit Progress(Env env) : env_(std::move(env)) {}

  /// Wakes all waiting callers.
  void notify() EXCLUDES(*env_.state_mutex) {
    MutexLock lock(*env_.state_mutex);
    notify_locked();
  }
  void notify_locked() REQUIRES(*env_.state_mutex) { moved_.notify_all(); }
  /// Waits until done(), which is called with the state mutex held, returns true. Returns Env::error()'s error if background work
  /// has stopped. Returns kAborted if the database is closing, or if no task is left that could end the wait.
  Status wait_until(const std::function<bool()>& done) EXCLUDES(*env_.state_mutex);

 private:
  const Env env_;
  CondVar moved_;  // used with the state mutex
};

}  // namespace ebbtide
