// Engine time: the clock of births, expiries and deadlines.
//
//   engine time = max(persisted high-water mark + boot clock since, wall clock)
//
// The mark is stored together with the reading of the boot clock at which engine time reaches the mark. So a start in the same
// boot of the machine, for example after a kill, continues where the previous process ended. After another boot, engine time
// begins at the mark.
//
// Engine time never goes back while the process runs. The durable mark is kept up to kLead ahead of engine time. The two readings
// below differ only while no new mark can be written: without free file handles, after a disk error, or while the manifest is
// busy for a long time.
//
//   now()       always advances, even if the manifest cannot be written. Readers judge expiry by it, and missed deadlines are
//               measured by it.
//   stamped()   never passes the mark. Births and batches are stamped with it, and merges use it to remove expired entries.
//
// So after any crash the next start begins at or after every stamp, and no removed entry had an expiry after that time. One case
// remains: the mark could not be written, the process died, and the wall clock was set back. Then the next start begins before
// the time that now() had reached, and a key that had expired in between can be read until it expires again.
//
// After a power loss, engine time may be up to kLead ahead of the wall clock. It then runs at half speed until the wall clock has
// caught up; otherwise repeated restarts would move it further and further ahead. While the process runs, engine time does not
// follow a step of the wall clock by more than a day, which is probably an error.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "version/version_edit.h"

namespace ebbtide {

class EngineTime {
 public:
  static constexpr Millis kLead = 10'000;                           ///< ms by which a new mark is ahead of engine time
  static constexpr Millis kMarkStep = 1000;                         ///< smallest distance of two marks in ms: a mark costs a sync
  static constexpr Millis kStepRefused = 24ull * 3600 * 1000;       ///< a larger step of the wall clock is not followed
  static constexpr Millis kOpenRefused = 30ull * 24 * 3600 * 1000;  ///< open() fails if the wall clock is further past the mark

  /// `boot`: identifies the present boot of the machine, from whose start boot_ms() of the clock counts; 0 = unknown.
  explicit EngineTime(const Clock& clock, std::uint64_t boot = 0) : clock_(clock), boot_(boot) {}

  /// Starts engine time at max(mark, wall clock). Must be called first. A mark of 0 means a new database. `reached`: the reading
  /// of the boot clock at which engine time reaches the mark. If the machine is still in that boot, and its boot clock reaches
  /// that reading in n ms, engine time starts at max(mark - n, wall clock).
  void start(Millis persisted_mark, const BootMark& reached = {});
  /// Returns the reading of the boot clock at which engine time reaches `mark`. The manifest stores the reading with the mark.
  [[nodiscard]] BootMark boot_mark(Millis mark) const;

  /// Returns the engine time. Reads one clock. Never decreases. Thread-safe.
  [[nodiscard]] Millis now() const {
    const auto t = static_cast<Millis>(static_cast<std::int64_t>(clock_.boot_ms()) + offset_.load(std::memory_order_relaxed));
    Millis last = last_.load(std::memory_order_relaxed);
    while (t > last && !last_.compare_exchange_weak(last, t, std::memory_order_relaxed)) {
    }
    return std::max(t, last);
  }
  /// Returns `now`, or the mark if that is earlier: the time for data written to disk, and for removals.
  [[nodiscard]] Millis stamped(Millis now) const { return std::min(now, mark_.load(std::memory_order_relaxed)); }
  /// Returns stamped(now()). Reads one clock. Never decreases, since the mark never does. Thread-safe.
  [[nodiscard]] Millis stamped() const { return stamped(now()); }

  /// Compares engine time with the wall clock; one thread must call it several times a second. Returns the mark to make durable
  /// now, or 0 if the current mark is far enough ahead.
  [[nodiscard]] Millis tick();
  /// Raises the limit of stamped() to `mark`, once the manifest has the mark durably.
  void set_mark(Millis mark) { mark_.store(mark, std::memory_order_relaxed); }
  /// True while engine time does not follow the wall clock, because the wall clock is too far ahead.
  [[nodiscard]] bool step_refused() const { return refused_.load(std::memory_order_relaxed); }
  /// Returns the engine time after its last jump by more than kLead to the wall clock; 0 = there was none.
  [[nodiscard]] Millis last_step() const { return stepped_.load(std::memory_order_relaxed); }

 private:
  const Clock& clock_;
  const std::uint64_t boot_;
  std::atomic<std::int64_t> offset_{0};  // engine time minus boot clock, in ms
  std::atomic<Millis> mark_{0};
  mutable std::atomic<Millis> last_{0};
  std::atomic<bool> refused_{false};
  std::atomic<Millis> stepped_{0};
  Millis last_tick_boot_ = 0;
};

}  // namespace ebbtide
