// Computes the worst mean cost over a ball of mixes, with its centre w and radius rho (Huynh et al., Endure, section 6.2).
//
//   maximise    sum v_i c_i   over mixes v
//   subject to  kl_divergence(v, w) <= rho
//
// The paper's dual (Eq. 17) has two variables, lambda and eta. A closed form gives the best eta, so lambda remains:
//
//   minimise over lambda > 0   rho lambda + lambda ln(sum w_i e^(c_i / lambda))
//
// At the optimum the worst mix is w shifted towards expensive operations: v_i ~ w_i e^(c_i / lambda). Its divergence from w falls
// as lambda grows. So Newton's method finds the lambda at which the divergence is rho. If the ball contains a mix of only the
// most expensive operations, lambda is 0 and the worst cost is the cost of these operations.
//
// Pure functions on values; any thread may call them.
#pragma once

#include "model/workload.h"

namespace ebbtide {

struct WorstCase {
  double cost = 0;     ///< largest mean cost in the ball
  PerOperation mix{};  ///< a mix in the ball with the mean cost `cost`
  /// The dual variable: infinite if rho = 0, and 0 if the ball contains a mix of only the most expensive operations.
  double lambda = 0;
};

/// Returns the largest mean cost within `rho` of `mix`. check_mix() must accept `mix`; `costs` are finite, rho is at least 0.
/// Operations with share 0 keep share 0.
WorstCase worst_case(const PerOperation& mix, const PerOperation& costs, double rho);

/// Returns the dual objective at `lambda` > 0. The result is never below worst_case().cost, and equals it at worst_case().lambda.
double dual_objective(const PerOperation& mix, const PerOperation& costs, double rho, double lambda);

}  // namespace ebbtide
