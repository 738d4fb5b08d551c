// The measured rate of merges, and the margin before a deadline that is computed from it.
#pragma once

#include <algorithm>
#include <cstdint>

#include <engine/types.h>
#include "base/mutex.h"

namespace ebbtide {

/// Bytes that merges read per ms of their own time, smoothed: a new job has a weight of a quarter. Thread-safe.
class MergeRate {
 public:
  /// Adds a job. Has no effect if the job is too short to measure.
  void note(std::uint64_t bytes, std::uint64_t ns) EXCLUDES(mutex_) {
    if (bytes < kLeastBytes || ns < kLeastNs) return;
    const double rate = static_cast<double>(bytes) * 1e6 / static_cast<double>(ns);
    MutexLock lock(mutex_);
    bytes_per_ms_ = bytes_per_ms_ == 0 ? rate : 0.75 * bytes_per_ms_ + 0.25 * rate;
  }
  /// Returns the rate; 0: nothing was measured yet.
  [[nodiscard]] double bytes_per_ms() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return bytes_per_ms_;
  }

 private:
  static constexpr std::uint64_t kLeastBytes = std::uint64_t{64} << 10;
  static constexpr std::uint64_t kLeastNs = 100'000;
  mutable Mutex mutex_;
  double bytes_per_ms_ GUARDED_BY(mutex_) = 0;
};

/// Returns the margin: the ms before a deadline at which merges for the deadline must be done. The margin is a tenth of the
/// deadline (at least a second) plus 1.5 times the duration of the outstanding work at the measured rate. It is at most half of
/// the deadline.
[[nodiscard]] inline Millis deadline_margin(Millis deadline, std::uint64_t work_bytes, double bytes_per_ms) {
  const double work = bytes_per_ms > 0 ? 1.5 * static_cast<double>(work_bytes) / bytes_per_ms : 0;
  const double base = std::max<double>(1000, static_cast<double>(deadline) / 10);
  return static_cast<Millis>(std::min(static_cast<double>(deadline) / 2, base + work));
}

}  // namespace ebbtide
