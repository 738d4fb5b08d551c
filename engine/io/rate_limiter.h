// Limits the rate of background reads and writes. It is a token bucket that returns how long to wait, and never waits itself.
//
// The state is one number: the time at which the bucket has no debt (the generic cell rate algorithm). A request moves that time
// forward by bytes / rate; its caller waits until then. The time is never earlier than now minus the burst (the bytes of 50 ms).
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"

namespace ebbtide {

/// Thread-safe. Requests are served in the order of the calls. A request waits for the bytes of earlier requests and its own.
class RateLimiter {
 public:
  static constexpr std::uint64_t kBurstNs = 50'000'000;

  /// `bytes_per_second` 0 = no limit. `clock` must outlive this object.
  RateLimiter(const Clock& clock, std::uint64_t bytes_per_second);

  /// Takes `bytes` now, and returns how many ns the caller should wait before it uses these bytes.
  std::uint64_t request(std::uint64_t bytes) EXCLUDES(mutex_);
  /// Sets the rate, which applies at once, to existing debt, too.
  void set_rate(std::uint64_t bytes_per_second) EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t rate() const EXCLUDES(mutex_);

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  std::uint64_t bytes_per_second_ GUARDED_BY(mutex_);
  std::uint64_t paid_until_ns_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
