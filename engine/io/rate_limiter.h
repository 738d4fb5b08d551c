// Limits the rate of background reads and writes. A token bucket that returns how long to wait, and never waits itself.
//
// The state is one time: the time at which the bytes of all earlier requests are paid for (the generic cell rate algorithm). If
// that time is earlier than now - 50 ms, a request first sets it to now - 50 ms: after a pause, the bytes of 50 ms (the burst)
// pass without a wait. Then the request moves the time forward by bytes / rate, and its caller waits until that time.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"

namespace ebbtide {

/// Thread-safe. Requests are served in the order of the calls: each waits for the bytes of all earlier requests and its own.
class RateLimiter {
 public:
  static constexpr std::uint64_t kBurstNs = 50'000'000;

  /// `bytes_per_second` 0 = no limit. `clock` must outlive this object.
  RateLimiter(const Clock& clock, std::uint64_t bytes_per_second);

  /// Takes `bytes` now, and returns how many ns the caller should wait before it uses these bytes.
  std::uint64_t request(std::uint64_t bytes) EXCLUDES(mutex_);
  /// Sets the rate at once. It also applies to requested bytes that are not paid for yet.
  void set_rate(std::uint64_t bytes_per_second) EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t rate() const EXCLUDES(mutex_);

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  std::uint64_t bytes_per_second_ GUARDED_BY(mutex_);
  std::uint64_t paid_until_ns_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
