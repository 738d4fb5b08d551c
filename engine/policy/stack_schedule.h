// The static merge schedules of stacks with at most k runs: MinLatency and Binomial (Mathieu et al.; Mao's thesis, section
// 3.2). A merge depends only on k and the number t of the flush. Both schedules use a binary search tree whose nodes are the
// flushes. A node has at most k - 1 smaller ancestors, so the stack has at most k runs. A node's larger ancestors are the later
// merges that write its data again; there are as few of them as k allows.
#pragma once

#include <cstdint>

namespace ebbtide {

/// Returns n choose r, or the largest representable number if that is smaller.
std::uint64_t binomial_coefficient(std::uint64_t n, std::uint64_t r);

/// Returns the number i of runs after flush `t` >= 1. The merge of that flush makes one run, the i-th oldest, of the flushed
/// run, the i-th oldest run and all newer runs. The result is in [1, k], and at most one more than after flush t - 1. k >= 1.
///
/// MinLatency: m' = min {m : C(m + k, m) > t}, i = B(m', k, t). stack_schedule.cc defines B.
std::uint64_t min_latency_runs(std::uint64_t k, std::uint64_t t);
/// Binomial: T_k(m) = sum over i = 1..m of C(i + min(i, k) - 1, i), m' = min {m : T_k(m) >= t}, i = 1 + B(m', min(m', k) - 1, t -
/// T_k(m' - 1) - 1). Up to about 4^k flushes (m' <= k), the schedule keeps both the number of runs and the number of rewrites
/// small. After that it equals MinLatency.
std::uint64_t binomial_runs(std::uint64_t k, std::uint64_t t);

}  // namespace ebbtide
