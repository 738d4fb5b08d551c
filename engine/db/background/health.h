// Makes the database read-only after a failure, and writable again after recovery.
//
// A failure of a flush, of the manifest or of the log makes the database read-only: reads work, writes are refused. Every two
// seconds the database tries to recover (Env::recover). Once an attempt succeeds, writes are accepted again. The database does
// not recover from corruption.
//
// If the data directory was moved away or removed, other calls fail, too, such as the creation of a table. So the directory is
// checked at each failure, and its error is the reason. The database does not recover until the directory is back.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include <engine/events.h>
#include <engine/status.h>
#include "base/clock.h"
#include "base/mutex.h"
#include "db/background/flush_gate.h"

namespace ebbtide {

/// The state of the database: writable or read-only. Thread-safe.
class Health {
 public:
  struct Env {
    const Clock* clock = nullptr;
    FlushGate* gate = nullptr;    ///< recover() runs with the gate alone: no flush runs at the same time
    std::function<Millis()> now;  ///< engine time
    /// Frees the reserved space, when a write has found the disk full. Returns false if no space was reserved.
    std::function<bool()> give_up_reserve;
    std::function<void(std::function<void()>)> submit;  ///< runs a function on a thread that may wait for the device
    std::function<bool()> closing;
    std::function<Status()> check_directory;  ///< FileLock::check_directory
    /// Makes the database as durable as before the failure. Called with the gate held alone.
    std::function<Status()> recover;
    std::function<void()> changed;  ///< called when read-only has begun or ended: wakes waiting threads
    std::function<void()> healed;   ///< called after changed(), when the database is writable again: starts background work
    std::function<void(Severity, const std::string&)> log;
  };

  explicit Health(Env env) : env_(std::move(env)) {}

  /// True while the database refuses writes. Costs one load, since each commit calls it.
  [[nodiscard]] bool read_only() const { return read_only_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_ok() const { return !read_only_.load(); }
  /// Returns the failure that keeps the database read-only: the failure of the last attempt to recover, or, before the first
  /// attempt, the original failure. Ok = the database is writable.
  [[nodiscard]] Status error() const EXCLUDES(mutex_);
  /// Returns kReadOnly with the failure as reason, or ok if the database is writable.
  [[nodiscard]] Status write_status() const EXCLUDES(mutex_);

  /// Makes the database read-only because the part `what` failed with `status`, or because the data directory is lost. Later
  /// failures change nothing until the database is writable again.
  void failed(const Status& status, const char* what) EXCLUDES(mutex_);
  /// Stores the time if the disk refused a write. A deadline missed soon after that time counts as missed because of the disk.
  void note_refusal(const Status& status);
  /// Returns the engine time of the last refusal; 0 = never.
  [[nodiscard]] Millis disk_refused_at() const { return disk_refused_at_.load(); }
  /// Tries to recover now, on this thread, which may wait for the device. No effect if the database is writable.
  void heal_now() EXCLUDES(mutex_, *env_.gate) { heal(); }
  /// Called on each tick of the database. Submits an attempt to recover if an attempt is due.
  void tick() EXCLUDES(mutex_);

 private:
  void become_read_only(const Status& status, const char* what) EXCLUDES(mutex_);
  void heal() EXCLUDES(mutex_, *env_.gate);
  void still_failed(const Status& status) EXCLUDES(mutex_);

  const Env env_;
  std::atomic<bool> read_only_{false};  // true if and only if error_ is an error
  std::atomic<Millis> disk_refused_at_{0};
  mutable Mutex mutex_;
  Status error_ GUARDED_BY(mutex_);
  std::uint64_t last_try_ns_ GUARDED_BY(mutex_) = 0;   // mono time of the last attempt to recover; 0: the next tick tries
  Code last_try_code_ GUARDED_BY(mutex_) = Code::kOk;  // result of the last attempt to recover; kOk: no attempt has failed
};

}  // namespace ebbtide
