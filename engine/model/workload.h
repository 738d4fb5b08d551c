// Describes a workload as shares of four kinds of operation, and how uncertain these shares are (Huynh et al., Endure, VLDB Journal
// 2024, sections 3 and 6).
//
// The distance between two mixes is the Kullback-Leibler divergence. rho bounds that distance from an expected mix: a tuning for rho is
// good for every mix in the ball {w : kl_divergence(w, expected) <= rho}. A kind of operation with share 0 in the expected mix has share
// 0 in the whole ball. So callers raise small shares by with_smallest_share() first, and histories do so themselves.
//
// Pure functions on values; any thread may call them.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <engine/result.h>

namespace ebbtide {

/// Kinds of operation, as indexes of PerOperation.
enum Operation : std::size_t {
  kEmptyRead = 0,  ///< point read of an absent key: z0
  kRead = 1,       ///< point read of an existing key: z1
  kRange = 2,      ///< range read: q
  kWrite = 3,      ///< insert, update or delete: w
};
inline constexpr std::size_t kOperations = 4;

/// One number for each kind of operation: its share, count or cost.
using PerOperation = std::array<double, kOperations>;

/// "empty read", "read", "range", "write".
const char* operation_name(Operation operation);

/// The smallest share that histories and ranges leave to a kind of operation. Endure's expected workloads have it, too (Table 4).
inline constexpr double kSmallestShare = 0.01;

/// kInvalidArgument unless all shares are finite, at least 0 and sum to 1 within 1e-6.
Status check_mix(const PerOperation& mix);
/// Shares in proportion to `counts`, which are at least 0 and not all 0.
PerOperation mix_of_counts(const PerOperation& counts);
/// The mix with every share at least `smallest`, at most 1/4: larger shares shrink in proportion.
PerOperation with_smallest_share(const PerOperation& mix, double smallest = kSmallestShare);

/// Cost of an average operation (Eq. 2, whose text swaps the costs of the two point reads): sum of shares times costs.
double mean_cost(const PerOperation& mix, const PerOperation& costs);

/// I_KL(p, q) = sum p_i ln(p_i / q_i) (Definition 1), in nats. Infinite if q lacks an operation that p has.
double kl_divergence(const PerOperation& p, const PerOperation& q);

/// An expected mix and the radius of the ball around it.
struct Uncertainty {
  PerOperation expected{};
  double rho = 0;
};

/// Windows with fewer operations are merged with the next ones: their shares are mostly chance.
inline constexpr double kSmallestWindow = 1000;
/// rho from history (section 6.2): the largest divergence of a window from the mean of all windows. `windows` are counts of operations in
/// the order of time; a small rest at the end joins the last window. kInvalidArgument if all together have under kSmallestWindow
/// operations, or a count is negative.
Result<Uncertainty> uncertainty_from_history(std::span<const PerOperation> windows);
/// rho from ranges: each share lies between `low` and `high`, and all sum to 1. The expected mix is in proportion to the middles. The
/// divergence is convex, so the farthest mix is a corner of the allowed region, and corners are compared exactly. kInvalidArgument if
/// low > high somewhere, or no mix lies within the ranges.
Result<Uncertainty> uncertainty_from_ranges(const PerOperation& low, const PerOperation& high);
/// rho from two workloads: the divergence of `unlikely` from `expected`, both with kSmallestShare. kInvalidArgument as check_mix().
Result<Uncertainty> uncertainty_between(const PerOperation& expected, const PerOperation& unlikely);

}  // namespace ebbtide
