// What the database does by the clock, ten times a second.
//
// tick() runs on the log thread. It must never wait for a sync of the log, nor for a thread that does. So work that waits for the
// device is submitted, and a mutex that is held across I/O is only tried.
//
// Each tick moves engine time's mark, measures the disk, then performs the steps of the database in their order.
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

namespace ebbtide {

/// Thread-safe.
class Maintenance {
 public:
  using Loads = std::vector<TreeLoad>;
  struct Env {
    DiskWatch* disk = nullptr;
    std::function<Millis()> advance_clock;              ///< returns the mark of engine time to write now; 0 = none
    std::function<bool()> step_refused;                 ///< engine time does not follow the wall clock, which is too far ahead
    std::function<void(Millis)> write_mark;             ///< does nothing while the manifest is being written, since the next tick
                                                        ///< has a new mark
    std::function<std::uint64_t()> logged_bytes;        ///< by the log, the running total
    std::function<std::uint64_t()> log_bytes;           ///< of the log's segments
    std::function<Loads()> loads;                       ///< all live trees
    std::function<void(std::function<void()>)> submit;  ///< for work that waits for the device and is not urgent
    std::function<void(Severity, const std::string&)> log;
    std::function<void()> begin;                           ///< before the trees are looked at
    std::vector<std::function<void(const Loads&)>> steps;  ///< the rest of the tick
  };

  explicit Maintenance(Env env) : env_(std::move(env)) {}

  /// Does nothing while another tick runs.
  void tick() EXCLUDES(mutex_);

 private:
  void advance_time() REQUIRES(mutex_);
  void look_at_disk(const Loads& loads) REQUIRES(mutex_);

  const Env env_;
  std::atomic<bool> reserve_queued_{false};
  Mutex mutex_;                                   // taken before all other mutexes; one tick at a time
  bool step_refused_ GUARDED_BY(mutex_) = false;  // as the log says
  bool disk_full_ GUARDED_BY(mutex_) = false;     // as the log says
};

}  // namespace ebbtide
