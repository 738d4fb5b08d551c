#include "io/rate_limiter.h"

#include <algorithm>

namespace ebbtide {

namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
/// The longest wait, one hour: a large request at a low rate must not block all later requests for longer.
constexpr std::uint64_t kMaxDebtNs = 3600 * kNsPerSecond;

/// Returns a * b / c without overflow, at most kMaxDebtNs; c > 0.
std::uint64_t scaled(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  const double result = static_cast<double>(a) * static_cast<double>(b) / static_cast<double>(c);
  return result >= static_cast<double>(kMaxDebtNs) ? kMaxDebtNs : static_cast<std::uint64_t>(result);
}

}  // namespace

RateLimiter::RateLimiter(const Clock& clock, std::uint64_t bytes_per_second)
    : clock_(clock), bytes_per_second_(bytes_per_second), paid_until_ns_(clock.mono_ns()) {}

std::uint64_t RateLimiter::request(std::uint64_t bytes) {
  const std::uint64_t now = clock_.mono_ns();
  MutexLock lock(mutex_);
  if (bytes_per_second_ == 0) return 0;
  const std::uint64_t oldest = now > kBurstNs ? now - kBurstNs : 0;
  paid_until_ns_ = std::max(paid_until_ns_, oldest) + scaled(bytes, kNsPerSecond, bytes_per_second_);
  paid_until_ns_ = std::min(paid_until_ns_, now + kMaxDebtNs);
  return paid_until_ns_ > now ? paid_until_ns_ - now : 0;
}

void RateLimiter::set_rate(std::uint64_t bytes_per_second) {
  const std::uint64_t now = clock_.mono_ns();
  MutexLock lock(mutex_);
  const std::uint64_t debt = paid_until_ns_ > now ? paid_until_ns_ - now : 0;
  if (debt != 0) paid_until_ns_ = bytes_per_second == 0 ? now : now + scaled(debt, bytes_per_second_, bytes_per_second);
  bytes_per_second_ = bytes_per_second;
}

std::uint64_t RateLimiter::rate() const {
  MutexLock lock(mutex_);
  return bytes_per_second_;
}

}  // namespace ebbtide
