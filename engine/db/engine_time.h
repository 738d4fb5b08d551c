// Engine time: what births, expiries and deadlines are measured in.
//
//   engine time = max(persisted high-water mark + boot clock since, wall clock)
//
// It never goes back, across restarts either: a mark is made durable ahead of it (kLead) and it never passes the mark, so that
// after any crash the next start begins at or after every time that was ever given out. Such a start is up to kLead ahead of the
// wall clock; then time runs at half speed until the wall clock has caught up, or restarts would add up. A step of the wall clock
// forward by more than a day while running is not followed: it is more likely an error than the truth.
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

  /// Before anything else: begins at max(mark, wall). A mark of 0 means a new database.
  void start(Millis persisted_mark);

  /// One clock call. Never decreases; never passes the mark. Thread-safe.
  [[nodiscard]] Millis now() const {
    const auto running =
        static_cast<Millis>(static_cast<std::int64_t>(clock_.boot_ms()) + offset_.load(std::memory_order_relaxed));
    Millis t = std::min(running, mark_.load(std::memory_order_relaxed));
    Millis last = last_.load(std::memory_order_relaxed);
    while (t > last && !last_.compare_exchange_weak(last, t, std::memory_order_relaxed)) {
    }
    return std::max(t, last);
  }

  /// Compares with the wall clock; to be called a few times a second by one thread. Returns the mark that should be made durable
  /// now, or 0 if the present one is far enough ahead.
  [[nodiscard]] Millis tick();
  /// The mark is durable: time may run up to it.
  void set_mark(Millis mark) { mark_.store(mark, std::memory_order_relaxed); }
  /// True while the wall clock is so far ahead that it is not followed.
  [[nodiscard]] bool step_refused() const { return refused_.load(std::memory_order_relaxed); }
  /// Engine time just after it last went forward by more than kLead at once, following the wall clock; 0 = it never did.
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
