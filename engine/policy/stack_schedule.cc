#include "policy/stack_schedule.h"

#include <algorithm>
#include <limits>

namespace ebbtide {
namespace {

constexpr std::uint64_t kLots = std::numeric_limits<std::uint64_t>::max();
__extension__ typedef unsigned __int128 Wide;

std::uint64_t add(std::uint64_t a, std::uint64_t b) { return a > kLots - b ? kLots : a + b; }

/// Returns the smallest m in [0, most] for which `large_enough` is true. `large_enough` must be true at `most`, and monotone.
template <typename Predicate>
std::uint64_t smallest(std::uint64_t most, Predicate large_enough) {
  std::uint64_t low = 0, high = most;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (large_enough(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Returns B(m, k, t), the stack depth of node t of the tree t*(m, k). The thesis' recurrence: B(m, k, 0) = 0, and with c = C(m
/// + k - 1, k), B(m, k, t) = B(m - 1, k, t) if t < c, else 1 + B(m, k - 1, t - c). The loop does successive steps of the first
/// kind at once.
std::uint64_t stack_depth(std::uint64_t m, std::uint64_t k, std::uint64_t t) {
  std::uint64_t depth = 0;
  while (t > 0) {
    m = smallest(m, [&](std::uint64_t x) { return binomial_coefficient(x + k, k) > t; });
    t -= binomial_coefficient(m + k - 1, k);
    --k;
    ++depth;
  }
  return depth;
}

/// Returns T_k(m). For i > k the terms are C(i + k - 1, k - 1), whose sum up to m follows from C(m + k, k) (hockey-stick
/// identity).
std::uint64_t flushes_until(std::uint64_t k, std::uint64_t m) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 1; i <= std::min(m, k); ++i) sum = add(sum, binomial_coefficient(2 * i - 1, i));
  if (m <= k) return sum;
  const std::uint64_t all = binomial_coefficient(m + k, k);
  return all == kLots ? kLots : add(sum, all - binomial_coefficient(2 * k, k));
}

}  // namespace

std::uint64_t binomial_coefficient(std::uint64_t n, std::uint64_t r) {
  if (r > n) return 0;
  r = std::min(r, n - r);
  Wide value = 1;
  for (std::uint64_t i = 1; i <= r; ++i) {
    value = value * (n - r + i) / i;
    if (value >= kLots) return kLots;
  }
  return static_cast<std::uint64_t>(value);
}

std::uint64_t min_latency_runs(std::uint64_t k, std::uint64_t t) {
  // C(m + k, m) > m, so m = t is large enough.
  const std::uint64_t m = smallest(t, [&](std::uint64_t x) { return binomial_coefficient(x + k, k) > t; });
  return stack_depth(m, k, t);
}

std::uint64_t binomial_runs(std::uint64_t k, std::uint64_t t) {
  const std::uint64_t m = smallest(t, [&](std::uint64_t x) { return flushes_until(k, x) >= t; });
  return 1 + stack_depth(m, std::min(m, k) - 1, t - flushes_until(k, m - 1) - 1);
}

}  // namespace ebbtide
