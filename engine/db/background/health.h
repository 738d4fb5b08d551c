// Makes the database read-only after a failure, and writable again after recovery.
//
// A failure of a flush, of the manifest or of the log makes the database read-only: reads work, writes are refused. Every two seconds the
// database tries to recover (Env::recover). Once that succeeds it accepts writes again. There is no recovery from corruption.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include <engine/events.h>
#include <engine/status.h>
#include "base/clock.h"
#include "base/mutex.h"

namespace ebbtide {

/// Thread-safe.
class Health {
 public:
  struct Env {
    const Clock* clock = nullptr;
    Mutex* flush_mutex = nullptr;  ///< held by recover(): one flush at a time
    std::function<Millis()> now;   ///< engine time
    /// A write found the disk full: frees the space that is reserved for this. False: none was reserved.
    std::function<bool()> give_up_reserve;
    std::function<void(std::function<void()>)> submit;  ///< for work that waits for the device
    std::function<bool()> closing;
    /// Makes the database as durable as it was before the failure. The flush mutex is held.
    std::function<Status()> recover;
    std::function<void()> changed;  ///< read-only began or ended: wakes waiting threads
    std::function<void()> healed;   ///< called after changed(): starts background work again
    std::function<void(Severity, const std::string&)> log;
  };

  explicit Health(Env env) : env_(std::move(env)) {}

  /// For each commit: one load.
  [[nodiscard]] bool read_only() const { return read_only_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_ok() const { return !read_only_.load(); }
  /// The failure that made the database read-only; ok = none.
  [[nodiscard]] Status error() const EXCLUDES(mutex_);
  /// kReadOnly with the failure as reason; ok if the database is writable.
  [[nodiscard]] Status write_status() const EXCLUDES(mutex_);

  /// Makes the database read-only. `what` failed. Later failures change nothing until it is healed.
  void failed(const Status& status, const char* what) EXCLUDES(mutex_);
  /// Stores the time if the disk refused a write. Deadlines that are missed soon after count as missed because of the disk.
  void note_refusal(const Status& status);
  /// Engine time of the last refusal; 0 = never.
  [[nodiscard]] Millis disk_refused_at() const { return disk_refused_at_.load(); }
  /// Called on each tick of the database. Submits an attempt to recover if it is time.
  void tick() EXCLUDES(mutex_);

 private:
  void heal() EXCLUDES(mutex_, *env_.flush_mutex);
  void still_failed(const Status& status) EXCLUDES(mutex_);

  const Env env_;
  std::atomic<bool> read_only_{false};  // true exactly while error_ is an error
  std::atomic<Millis> disk_refused_at_{0};
  mutable Mutex mutex_;
  Status error_ GUARDED_BY(mutex_);
  std::uint64_t last_try_ns_ GUARDED_BY(mutex_) = 0;   // 0: the next tick tries
  Code last_try_code_ GUARDED_BY(mutex_) = Code::kOk;  // kOk: no try has failed
};

}  // namespace ebbtide
