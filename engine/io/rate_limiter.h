// Limits the rate of background reads and writes: a token bucket that returns how long to wait and never waits itself.
//
// Its state is one number, the time at which the bucket has no debt (the generic cell rate algorithm). A request moves that time forward by
// bytes / rate; its caller waits until then. The time is never earlier than now minus the burst (50 ms of bytes).
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"

namespace ebbtide {

/// Thread-safe. Requests are served in call order. A request waits for the bytes of earlier ones and its own.
class RateLimiter {
 public:
  static constexpr std::uint64_t kBurstNs = 50'000'000;

  /// `bytes_per_second` 0 is unlimited. `clock` outlives this.
  RateLimiter(const Clock& clock, std::uint64_t bytes_per_second);

  /// Takes `bytes` now and returns how many ns the caller should wait before it uses them.
  std::uint64_t request(std::uint64_t bytes) EXCLUDES(mutex_);
  /// Applies at once, to existing debt too.
  void set_rate(std::uint64_t bytes_per_second) EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t rate() const EXCLUDES(mutex_);

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  std::uint64_t bytes_per_second_ GUARDED_BY(mutex_);
  std::uint64_t paid_until_ns_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
