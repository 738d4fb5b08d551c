// How fast background work may read and write: a token bucket that says how long to wait and never waits itself.
//
// Kept as one number, the time at which the bucket will be empty of debt (the generic cell rate algorithm): a request moves it by
// bytes / rate, and waits for as long as it lies ahead of now. It lags behind now by at most the burst, 50 ms worth of bytes.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"

namespace ebbtide {

/// Thread-safe. Requests are served in the order of their calls; a large one delays those after it, not itself by more than its
/// share.
class RateLimiter {
 public:
  static constexpr std::uint64_t kBurstNs = 50'000'000;

  /// `bytes_per_second` 0 is unlimited. `clock` outlives this.
  RateLimiter(const Clock& clock, std::uint64_t bytes_per_second);

  /// Takes `bytes` now and returns how many ns the caller should wait before it uses them.
  std::uint64_t request(std::uint64_t bytes) EXCLUDES(mutex_);
  /// Takes effect at once; debt made at the old rate is paid off at the new one.
  void set_rate(std::uint64_t bytes_per_second) EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t rate() const EXCLUDES(mutex_);

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  std::uint64_t bytes_per_second_ GUARDED_BY(mutex_);
  std::uint64_t paid_until_ns_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
