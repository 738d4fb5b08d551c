// Limits how fast the merges of one tree for delete deadlines read and write (tree.deletes.io_budget). The limit is a bucket that
// fills at the rate of io_budget.
//
// A merge starts once the bucket has paid for the bytes of earlier merges. A running merge never waits, since it would block a
// thread. A merge waits an hour at most: bytes beyond what the bucket can pay for in an hour are ignored.
//
// A budget spreads merges but never causes a missed deadline: the rate grows to the rate that the deadlines need. Merges ignore
// the budget (FadeContext::over_budget) if half of the margin before the deadline is used up, or if the deadline had passed when
// the database was opened. They also ignore it after PURGE.NOW.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "io/rate_limiter.h"

namespace ebbtide {

/// The budget of one tree. Thread-safe.
class DeadlineBudget {
 public:
  /// `clock` must outlive the budget.
  explicit DeadlineBudget(const Clock& clock) : limiter_(clock, 0) {}

  /// Sets the rate. `configured`: bytes per second, 0 = no limit. `work_bytes_per_ms`: FadeWork::bytes_per_ms. Returns true if
  /// the deadlines need more than `configured`; then the rate is what the deadlines need.
  bool follow(std::uint64_t configured, double work_bytes_per_ms) {
    const double needed = kBytesPerWork * 1000 * work_bytes_per_ms;
    const bool raised = configured != 0 && needed > static_cast<double>(configured);
    limiter_.set_rate(raised ? static_cast<std::uint64_t>(std::min(needed, kHighest)) : configured);
    return raised;
  }
  /// Counts bytes that a merge will read or has written.
  void spend(std::uint64_t bytes) { (void)limiter_.request(bytes); }
  /// True if the budget has not yet paid for earlier merges.
  [[nodiscard]] bool is_spent() { return limiter_.request(0) != 0; }
  /// Returns the current rate in bytes per second; 0 = no limit.
  [[nodiscard]] std::uint64_t rate() const { return limiter_.rate(); }

  /// Returns the bytes that merges may read per ms (as in MergeRate and FadeWork) with a budget of `budget` bytes per second.
  static double work_rate(std::uint64_t budget) { return static_cast<double>(budget) / 1000 / kBytesPerWork; }

 private:
  // A merge reads and writes each byte of FadeWork: 2 bytes of I/O. The third byte allows for work that the estimate missed.
  static constexpr double kBytesPerWork = 3;
  static constexpr double kHighest = 1e15;
  RateLimiter limiter_;
};

}  // namespace ebbtide
