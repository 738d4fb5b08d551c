// Decides when failed work is retried: after waits that double up to a limit, until the work succeeds.
#pragma once

#include <algorithm>
#include <cstdint>

#include <engine/status.h>

namespace ebbtide {

/// Not thread-safe. Times are readings of Clock::mono_ns().
class Backoff {
 public:
  /// Records the result of a try that ended at `now_ns`. After the n-th failure in a row, the next try waits 2^n half seconds,
  /// at most 4 s. A result kAborted has no effect.
  void note(const Status& status, std::uint64_t now_ns) {
    if (status.code() == Code::kAborted) return;
    failures_ = status.is_ok() ? 0 : failures_ + 1;
    retry_ns_ = now_ns + std::min(kLongestNs, kFirstNs << std::min(10u, failures_));
  }
  /// Returns true if the last try failed.
  [[nodiscard]] bool failed() const { return failures_ != 0; }
  /// Returns true if the last try failed and it is too early for the next try.
  [[nodiscard]] bool rests(std::uint64_t now_ns) const { return failed() && now_ns < retry_ns_; }

 private:
  static constexpr std::uint64_t kFirstNs = 500'000'000;
  static constexpr std::uint64_t kLongestNs = 4'000'000'000;  // below 5 s: after disk space is freed, work must go on within 5 s
  unsigned failures_ = 0;                                     // number of failures in a row
  std::uint64_t retry_ns_ = 0;
};

}  // namespace ebbtide
