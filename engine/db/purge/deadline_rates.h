// Rates that the deadline tracker goes by: how fast merges are, how much flushes bring, what deadline work may cost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include <engine/types.h>
#include "base/clock.h"
#include "base/mutex.h"
#include "io/rate_limiter.h"

namespace ebbtide {

/// Bytes that merges take in per ms of their own time, smoothed: a new job counts for a quarter. Thread-safe.
class MergeRate {
 public:
  /// Jobs that are too short to say anything do not count.
  void note(std::uint64_t bytes, std::uint64_t ns) EXCLUDES(mutex_) {
    if (bytes < kLeastBytes || ns < kLeastNs) return;
    const double rate = static_cast<double>(bytes) * 1e6 / static_cast<double>(ns);
    MutexLock lock(mutex_);
    bytes_per_ms_ = bytes_per_ms_ == 0 ? rate : 0.75 * bytes_per_ms_ + 0.25 * rate;
  }
  /// 0: nothing was measured yet.
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

/// How much flushes of one tree bring, smoothed: a new one counts for an eighth. Thread-safe.
class FlushRate {
 public:
  /// Flushes of one and the same moment are one.
  void note(std::uint64_t bytes, Millis now) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    pending_bytes_ += bytes;
    if (last_ == 0 || now <= last_) {
      if (last_ == 0) pending_bytes_ = 0;  // of a time that nobody measured
      last_ = std::max(last_, now);
      return;
    }
    flushes_ = std::min(flushes_ + 1, kSmoothed);
    const double weight = 1.0 / flushes_;
    bytes_ += weight * (static_cast<double>(std::exchange(pending_bytes_, 0)) - bytes_);
    interval_ += weight * (static_cast<double>(now - last_) - interval_);
    last_ = now;
  }
  /// Bytes in so much time at that rate; 0: too few flushes were seen to say.
  [[nodiscard]] std::uint64_t within(Millis time, Millis now) const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (flushes_ < kLeastFlushes) return 0;
    // A pause longer than usual counts as the next interval will.
    const double pause = now > last_ ? static_cast<double>(now - last_) : 0;
    const double interval = std::max(interval_, interval_ + (pause - interval_) / 8);
    return static_cast<std::uint64_t>(std::max(1.0, std::min(kMost, bytes_ / interval * static_cast<double>(time))));
  }

 private:
  static constexpr int kLeastFlushes = 4, kSmoothed = 8;
  static constexpr double kMost = 1e18;
  mutable Mutex mutex_;
  double bytes_ GUARDED_BY(mutex_) = 0, interval_ GUARDED_BY(mutex_) = 0;  // of a flush; ms until the next
  std::uint64_t pending_bytes_ GUARDED_BY(mutex_) = 0;
  Millis last_ GUARDED_BY(mutex_) = 0;
  int flushes_ GUARDED_BY(mutex_) = 0;
};

/// How fast the merges of one tree that deadlines ask for may read and write (tree.deletes.io_budget). A bucket that is filled at
/// that rate: a merge starts when what those before it have read and written is paid for, so none waits half-way, with a thread.
/// No debt is longer than an hour: what a merge cost beyond that is forgiven.
///
/// A budget spreads work, and never lets a deadline be missed: it grows to what the deadlines need, and what has used up half of
/// its margin, is overdue since the start, or was asked for by hand, starts without being paid for (FadeContext::over_budget).
/// Thread-safe.
class DeadlineBudget {
 public:
  /// `clock` outlives this.
  explicit DeadlineBudget(const Clock& clock) : limiter_(clock, 0) {}

  /// `configured` in bytes per second, 0 = no limit. `work_bytes_per_ms` is FadeWork::bytes_per_ms. Answers whether the deadlines
  /// need more than is configured; then it is this that holds.
  bool follow(std::uint64_t configured, double work_bytes_per_ms) {
    const double needed = kBytesPerWork * 1000 * work_bytes_per_ms;
    const bool raised = configured != 0 && needed > static_cast<double>(configured);
    limiter_.set_rate(raised ? static_cast<std::uint64_t>(std::min(needed, kHighest)) : configured);
    return raised;
  }
  /// A merge reads, or has written, so much.
  void spend(std::uint64_t bytes) { (void)limiter_.request(bytes); }
  /// Whether something is not paid for yet.
  [[nodiscard]] bool is_spent() { return limiter_.request(0) != 0; }
  /// That holds, in bytes per second; 0 = no limit.
  [[nodiscard]] std::uint64_t rate() const { return limiter_.rate(); }

  /// At which a budget lets work go on, in the bytes per ms of MergeRate and FadeWork.
  static double work_rate(std::uint64_t budget) { return static_cast<double>(budget) / 1000 / kBytesPerWork; }

 private:
  // A byte of work is read and written; half as much again, since the work is an estimate.
  static constexpr double kBytesPerWork = 3;
  static constexpr double kHighest = 1e15;
  RateLimiter limiter_;
};

/// How long before a deadline the work for it is to be done: a tenth of the time, a second at least, and what the outstanding
/// work takes at the measured rate, half as much again; but never more than half of the time.
[[nodiscard]] inline Millis deadline_margin(Millis deadline, std::uint64_t work_bytes, double bytes_per_ms) {
  const double work = bytes_per_ms > 0 ? 1.5 * static_cast<double>(work_bytes) / bytes_per_ms : 0;
  const double base = std::max<double>(1000, static_cast<double>(deadline) / 10);
  return static_cast<Millis>(std::min(static_cast<double>(deadline) / 2, base + work));
}

}  // namespace ebbtide
