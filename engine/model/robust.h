// Computes the worst mean cost over a ball of mixes (Huynh et al., Endure, section 6.2).
//
//   maximise    sum v_i c_i   over mixes v
//   subject to  kl_divergence(v, w) <= rho
//
// The paper's dual (Eq. 17) has two variables. The best eta is known in closed form, which leaves one:
//
//   minimise over lambda > 0   rho lambda + lambda ln(sum w_i e^(c_i / lambda))
//
// At the optimum the worst mix is w tilted towards expensive operations, v_i ~ w_i e^(c_i / lambda). Its divergence from w falls as lambda
// grows. So the lambda at which the divergence is rho is found by Newton's method. If the ball
// reaches the mixes of only the most expensive operations, lambda is 0 and the worst cost is theirs.
//
// Pure functions on values; any thread may call them.
#pragma once

#include "model/workload.h"

namespace ebbtide {

struct WorstCase {
  double cost = 0;     ///< largest mean cost in the ball
  PerOperation mix{};  ///< a mix that has it
  double lambda = 0;   ///< the dual variable; infinite at rho = 0, 0 if the ball reaches the most expensive operations alone
};

/// `mix` as check_mix(), `costs` finite, rho at least 0. Operations with share 0 stay at 0.
WorstCase worst_case(const PerOperation& mix, const PerOperation& costs, double rho);

/// The dual objective at `lambda` > 0. Never below worst_case().cost, and equal to it at worst_case().lambda.
double dual_objective(const PerOperation& mix, const PerOperation& costs, double rho, double lambda);

}  // namespace ebbtide
