// Limits how fast the merges of one tree for delete deadlines read and write (tree.deletes.io_budget): a bucket that is filled at
// that rate.
//
// A merge starts once the bytes of earlier merges are paid for, and never waits in the middle, which would block a thread. A debt
// is paid for an hour at most; the rest is dropped.
//
// A budget spreads work but never causes a missed deadline: it grows to the rate that the deadlines need. Work starts without
// being paid for (FadeContext::over_budget) if half of its margin is used up, if it was overdue at the start, or after PURGE.NOW.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "io/rate_limiter.h"

namespace ebbtide {

/// Thread-safe.
class DeadlineBudget {
 public:
  /// `clock` outlives this.
  explicit DeadlineBudget(const Clock& clock) : limiter_(clock, 0) {}

  /// `configured` in bytes per second, 0 = no limit. `work_bytes_per_ms` is FadeWork::bytes_per_ms. Returns true if the deadlines
  /// need more than is configured; then the budget is what they need.
  bool follow(std::uint64_t configured, double work_bytes_per_ms) {
    const double needed = kBytesPerWork * 1000 * work_bytes_per_ms;
    const bool raised = configured != 0 && needed > static_cast<double>(configured);
    limiter_.set_rate(raised ? static_cast<std::uint64_t>(std::min(needed, kHighest)) : configured);
    return raised;
  }
  /// Counts bytes that a merge reads or has written.
  void spend(std::uint64_t bytes) { (void)limiter_.request(bytes); }
  /// True if earlier merges are not paid for yet.
  [[nodiscard]] bool is_spent() { return limiter_.request(0) != 0; }
  /// The rate in force, in bytes per second; 0 = no limit.
  [[nodiscard]] std::uint64_t rate() const { return limiter_.rate(); }

  /// The rate of work that a budget allows, in the bytes per ms of MergeRate and FadeWork.
  static double work_rate(std::uint64_t budget) { return static_cast<double>(budget) / 1000 / kBytesPerWork; }

 private:
  // A byte of work is read and written; half as much again, since the work is an estimate.
  static constexpr double kBytesPerWork = 3;
  static constexpr double kHighest = 1e15;
  RateLimiter limiter_;
};

}  // namespace ebbtide
