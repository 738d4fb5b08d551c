// The merge schedules of bounded-depth stacks that depend only on k and the number t of the flush: MinLatency and Binomial
// (Mathieu et al.; Mao's thesis, section 3.2). Both use a binary search tree over the flushes whose nodes have at most k - 1
// smaller ancestors, which bounds the stack. The number of larger ancestors, which are the merges of a flush, is as small as that
// allows.
#pragma once

#include <cstdint>

namespace ebbtide {

/// n choose r, saturated at the largest representable number.
std::uint64_t binomial_coefficient(std::uint64_t n, std::uint64_t r);

/// The number of runs i after flush `t` >= 1: the flush and all runs from the i-th oldest on become the i-th oldest. In [1, k],
/// and at most one more than after flush t - 1. k >= 1.
///
/// MinLatency: m' = min {m : C(m + k, m) > t}, i = B(m', k, t).
std::uint64_t min_latency_runs(std::uint64_t k, std::uint64_t t);
/// Binomial: T_k(m) = sum over i = 1..m of C(i + min(i, k) - 1, i), m' = min {m : T_k(m) >= t},
/// i = 1 + B(m', min(m', k) - 1, t - T_k(m' - 1) - 1). Up to about 4^k flushes (m' <= k) it keeps the stack as shallow as its
/// merges are deep; after that it is the same as MinLatency.
std::uint64_t binomial_runs(std::uint64_t k, std::uint64_t t);

}  // namespace ebbtide
