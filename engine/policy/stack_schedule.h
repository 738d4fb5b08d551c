// The merge schedules of bounded-depth stacks that depend only on k and the number t of the flush: MinLatency and Binomial
// (Mathieu et al.; Mao's thesis, section 3.2). Both use a binary search tree over the flushes. A node has at most k - 1 smaller
// ancestors, which bounds the stack. Its larger ancestors are the merges that write the flush again; their number is as small as
// the bound allows.
#pragma once

#include <cstdint>

namespace ebbtide {

/// Returns n choose r, or the largest representable number if that is smaller.
std::uint64_t binomial_coefficient(std::uint64_t n, std::uint64_t r);

/// Returns the number i of runs after flush `t` >= 1: the flush and all runs from the i-th oldest on become the i-th oldest run.
/// The result is in [1, k], and at most one more than after flush t - 1. k >= 1.
///
/// MinLatency: m' = min {m : C(m + k, m) > t}, i = B(m', k, t). stack_schedule.cc defines B.
std::uint64_t min_latency_runs(std::uint64_t k, std::uint64_t t);
/// Binomial: T_k(m) = sum over i = 1..m of C(i + min(i, k) - 1, i), m' = min {m : T_k(m) >= t}, i = 1 + B(m', min(m', k) - 1, t -
/// T_k(m' - 1) - 1). Up to about 4^k flushes (m' <= k) the stack is as shallow as the merges are deep; after that the schedule
/// equals MinLatency.
std::uint64_t binomial_runs(std::uint64_t k, std::uint64_t t);

}  // namespace ebbtide
