// Engine time: the clock of births, expiries and deadlines.
//
//   engine time = max(persisted high-water mark + boot clock since, wall clock)
//
// It never goes back while the process runs. A mark ahead of it (kLead) is made durable. Two readings differ only while the mark cannot be
// written: without free file handles, after a disk error, or while the manifest is busy for long.
//
//   now()       runs on. Readers judge expiry by it, and lateness is measured by it: a manifest that fails stops no clock.
//   stamped()   never passes the mark. Births and batches are stamped with it, and merges remove by it what has expired.
//
// So after any crash the next start begins at or after every stamp, and nothing was removed that could be alive again. One case
// remains: the mark could not be written, the process died, and the wall clock was set back. Then the next start begins before
// what now() had reached, and a key that had expired in between may be read once more, until it expires again.
//
// After a start, engine time may be up to kLead ahead of the wall clock. It then runs at half speed until the wall clock has caught up;
// otherwise repeated restarts would move it ever further ahead. While running, engine time does not follow a step of the wall clock by more
// than a day, which is probably an error.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/clock.h"

namespace ebbtide {

class EngineTime {
 public:
  static constexpr Millis kLead = 10'000;
  static constexpr Millis kMarkStep = 1000;  ///< a mark costs a sync: no more often than this
  static constexpr Millis kStepRefused = 24ull * 3600 * 1000;
  static constexpr Millis kOpenRefused = 30ull * 24 * 3600 * 1000;

  explicit EngineTime(const Clock& clock) : clock_(clock) {}

  /// First call: starts engine time at max(mark, wall clock). A mark of 0 means a new database.
  void start(Millis persisted_mark);

  /// One clock call. Never decreases. Thread-safe.
  [[nodiscard]] Millis now() const {
    const auto t = static_cast<Millis>(static_cast<std::int64_t>(clock_.boot_ms()) + offset_.load(std::memory_order_relaxed));
    Millis last = last_.load(std::memory_order_relaxed);
    while (t > last && !last_.compare_exchange_weak(last, t, std::memory_order_relaxed)) {
    }
    return std::max(t, last);
  }
  /// Returns `now`, or the mark if that is earlier: the time for data written to disk, and for removals.
  [[nodiscard]] Millis stamped(Millis now) const { return std::min(now, mark_.load(std::memory_order_relaxed)); }
  /// stamped(now()): one clock call. Never decreases, since the mark does not. Thread-safe.
  [[nodiscard]] Millis stamped() const { return stamped(now()); }

  /// Compares engine time with the wall clock; one thread calls it a few times a second. Returns the mark to make durable now, or 0 if the
  /// current one is far enough ahead.
  [[nodiscard]] Millis tick();
  /// Call it when `mark` is durable: stamped() may then reach it.
  void set_mark(Millis mark) { mark_.store(mark, std::memory_order_relaxed); }
  /// True while engine time does not follow the wall clock, because that is too far ahead.
  [[nodiscard]] bool step_refused() const { return refused_.load(std::memory_order_relaxed); }
  /// Engine time after its last jump by more than kLead to the wall clock; 0 = none.
  [[nodiscard]] Millis last_step() const { return stepped_.load(std::memory_order_relaxed); }

 private:
  const Clock& clock_;
  std::atomic<std::int64_t> offset_{0};  // engine time less boot clock
  std::atomic<Millis> mark_{0};
  mutable std::atomic<Millis> last_{0};
  std::atomic<bool> refused_{false};
  std::atomic<Millis> stepped_{0};
  Millis last_tick_boot_ = 0;
};

}  // namespace ebbtide
