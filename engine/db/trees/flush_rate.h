// The smoothed rate at which flushes of one tree write bytes: a new flush has a weight of one eighth.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include <engine/types.h>
#include "base/mutex.h"

namespace ebbtide {

/// The flush rate of one tree. Thread-safe.
class FlushRate {
 public:
  /// Counts a flush of `bytes` bytes. Flushes at the same moment count as one.
  void note(std::uint64_t bytes, Millis now) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    pending_bytes_ += bytes;
    if (last_ == 0 || now <= last_) {
      if (last_ == 0) pending_bytes_ = 0;  // the time in which the first flush's data was written is unknown
      last_ = std::max(last_, now);
      return;
    }
    flushes_ = std::min(flushes_ + 1, kSmoothed);
    const double weight = 1.0 / flushes_;
    bytes_ += weight * (static_cast<double>(std::exchange(pending_bytes_, 0)) - bytes_);
    interval_ += weight * (static_cast<double>(now - last_) - interval_);
    last_ = now;
  }
  /// Returns the bytes that flushes write in `time` ms at the measured rate; 0 = unknown, since there were too few flushes.
  [[nodiscard]] std::uint64_t within(Millis time, Millis now) const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (flushes_ < kLeastFlushes) return 0;
    // If no flush came for longer than usual, the time since the last flush counts as one more interval.
    const double pause = now > last_ ? static_cast<double>(now - last_) : 0;
    const double interval = std::max(interval_, interval_ + (pause - interval_) / 8);
    return static_cast<std::uint64_t>(std::max(1.0, std::min(kMost, bytes_ / interval * static_cast<double>(time))));
  }

 private:
  static constexpr int kLeastFlushes = 4, kSmoothed = 8;
  static constexpr double kMost = 1e18;
  mutable Mutex mutex_;
  double bytes_ GUARDED_BY(mutex_) = 0, interval_ GUARDED_BY(mutex_) = 0;  // bytes of a flush; ms between flushes
  std::uint64_t pending_bytes_ GUARDED_BY(mutex_) = 0;
  Millis last_ GUARDED_BY(mutex_) = 0;
  int flushes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ebbtide
