// Describes a workload as shares of four kinds of operation, and how uncertain these shares are (Huynh et al., Endure, VLDB
// Journal 2024, sections 3 and 6).
//
// The distance between two mixes is the Kullback-Leibler divergence. rho bounds the distance from an expected mix: a tuning for
// rho is good for every mix in the ball {w : kl_divergence(w, expected) <= rho}. A kind of operation with share 0 in the expected
// mix has share 0 in the whole ball. So callers must raise small shares by with_smallest_share() first; the uncertainty functions
// below do this themselves.
//
// Pure functions on values; any thread may call them.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <engine/result.h>

namespace ebbtide {

/// Kinds of operation, used as indexes of PerOperation.
enum Operation : std::size_t {
  kEmptyRead = 0,  ///< point read of an absent key: z0
  kRead = 1,       ///< point read of an existing key: z1
  kRange = 2,      ///< range read: q
  kWrite = 3,      ///< insert, update or delete: w
};
inline constexpr std::size_t kOperations = 4;

/// One number for each kind of operation: its share, count or cost.
using PerOperation = std::array<double, kOperations>;

/// Returns "empty read", "read", "range" or "write".
const char* operation_name(Operation operation);

/// The smallest share of a kind of operation that the functions below assume. Endure's expected workloads use the same minimum
/// (Table 4).
inline constexpr double kSmallestShare = 0.01;

/// The expected workloads w0 to w14 of Endure's uncertainty benchmark (Table 4): uniform, and with one, two or three dominant
/// kinds of operation.
inline constexpr PerOperation kEndureWorkloads[15] = {
    {.25, .25, .25, .25}, {.97, .01, .01, .01}, {.01, .97, .01, .01}, {.01, .01, .97, .01}, {.01, .01, .01, .97},
    {.49, .49, .01, .01}, {.49, .01, .49, .01}, {.49, .01, .01, .49}, {.01, .49, .49, .01}, {.01, .49, .01, .49},
    {.01, .01, .49, .49}, {.33, .33, .33, .01}, {.33, .33, .01, .33}, {.33, .01, .33, .33}, {.01, .33, .33, .33}};

/// Returns kInvalidArgument unless all shares are finite, at least 0, and sum to 1 within 1e-6.
Status check_mix(const PerOperation& mix);
/// Returns the shares in proportion to `counts`, which are at least 0 and not all 0.
PerOperation mix_of_counts(const PerOperation& counts);
/// Returns the mix with each share raised to `smallest`, which is at most 1/4; the larger shares shrink in proportion.
PerOperation with_smallest_share(const PerOperation& mix, double smallest = kSmallestShare);

/// Returns the cost of an average operation, the sum of shares times costs (Eq. 2, whose text swaps the costs of the two kinds of
/// point reads).
double mean_cost(const PerOperation& mix, const PerOperation& costs);

/// Returns I_KL(p, q) = sum p_i ln(p_i / q_i) (Definition 1), in nats. Infinite if q has share 0 for an operation that p has.
double kl_divergence(const PerOperation& p, const PerOperation& q);

/// An expected mix and the radius of the ball around it.
struct Uncertainty {
  PerOperation expected{};
  double rho = 0;
};

/// A window with fewer operations is merged with the next windows, since its shares are mostly chance.
inline constexpr double kSmallestWindow = 1000;
/// Computes rho from history (section 6.2): the largest divergence of a window from the mean of all windows. `windows` are counts
/// of operations, in order of time; a small rest at the end joins the last window. kInvalidArgument if all windows together have
/// fewer than kSmallestWindow operations, or if a count is negative.
Result<Uncertainty> uncertainty_from_history(std::span<const PerOperation> windows);
/// Computes rho from ranges: each share lies between `low` and `high`, and all sum to 1. The expected mix is proportional to the
/// middles of the ranges. The divergence is convex, so the farthest mix is a corner of the allowed region; the function compares
/// all corners. kInvalidArgument if low > high for an operation, or if no mix lies within the ranges.
Result<Uncertainty> uncertainty_from_ranges(const PerOperation& low, const PerOperation& high);
/// Computes rho from two workloads: the divergence of `unlikely` from `expected`, both raised to kSmallestShare. kInvalidArgument
/// as for check_mix().
Result<Uncertainty> uncertainty_between(const PerOperation& expected, const PerOperation& unlikely);

}  // namespace ebbtide
