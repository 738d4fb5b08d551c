// The timed work of the database, ten times a second.
//
// tick() runs on the log thread. It must never wait for a sync of the log, nor for a thread that waits for a sync. So work that
// waits for the device is submitted to other threads. tick() never waits for a mutex that others hold across I/O: it takes such a
// mutex only if it is free.
//
// Each tick moves the mark of engine time, measures the disk, and then carries out the database's other steps in order.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <engine/events.h>
#include <engine/types.h>
#include "base/mutex.h"
#include "db/background/disk_watch.h"
#include "db/trees/tree.h"
#include "io/open_files.h"

namespace ebbtide {

/// Carries out the ticks. Thread-safe.
class Maintenance {
 public:
  using Loads = std::vector<TreeLoad>;
  struct Env {
    DiskWatch* disk = nullptr;
    OpenFiles* open_files = nullptr;        ///< open files of tables
    std::function<Millis()> advance_clock;  ///< returns the mark of engine time to write now; 0 = none
    /// True while engine time does not follow the wall clock, because the wall clock is too far ahead.
    std::function<bool()> step_refused;
    /// Writes a mark of engine time. No effect while the manifest is being written, since the next tick has a new mark.
    std::function<void(Millis)> write_mark;
    std::function<std::uint64_t()> logged_bytes;  ///< returns the total of bytes written to the log
    std::function<std::uint64_t()> log_bytes;     ///< returns the bytes of the log's segments
    std::function<Loads()> loads;                 ///< returns the state of all live trees
    /// Runs a function that is not urgent on a thread that may wait for the device.
    std::function<void(std::function<void()>)> submit;
    std::function<void(Severity, const std::string&)> log;
    std::function<void()> begin;                           ///< the first step of a tick, before loads()
    std::vector<std::function<void(const Loads&)>> steps;  ///< the other steps of the tick
  };

  explicit Maintenance(Env env) : env_(std::move(env)) {}

  /// Does nothing while another tick runs.
  void tick() EXCLUDES(mutex_);

 private:
  void advance_time() REQUIRES(mutex_);
  void look_at_disk(const Loads& loads) REQUIRES(mutex_);
  void look_at_files() REQUIRES(mutex_);

  const Env env_;
  std::atomic<bool> reserve_queued_{false};
  // The error of the last attempt to create the reserve, so that the same error is logged once. Only the queued attempt uses it.
  std::string reserve_failure_;
  Mutex mutex_;                                   // taken before all other mutexes; held during a tick
  bool step_refused_ GUARDED_BY(mutex_) = false;  // the value that was logged last: only changes are logged
  bool disk_full_ GUARDED_BY(mutex_) = false;     // the value that was logged last: only changes are logged
};

}  // namespace ebbtide
