#include "model/robust.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/invariant.h"

namespace ebbtide {
namespace {

double dearest(const PerOperation& mix, const PerOperation& costs) {
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < kOperations; ++i) most = mix[i] > 0 ? std::max(most, costs[i]) : most;
  return most;
}

struct Tilt {
  PerOperation mix{};     ///< v_i ~ w_i e^((c_i - most) theta)
  double divergence = 0;  ///< divergence of `mix` from w
  double slope = 0;       ///< derivative of the divergence with respect to theta: theta times the variance of the costs under v
};

Tilt tilt(const PerOperation& mix, const PerOperation& costs, double most, double theta) {
  Tilt out;
  double sum = 0, mean = 0, square = 0;
  for (std::size_t i = 0; i < kOperations; ++i) {
    const double below = mix[i] > 0 ? costs[i] - most : 0;
    out.mix[i] = mix[i] > 0 ? mix[i] * std::exp(below * theta) : 0;
    sum += out.mix[i];
    mean += out.mix[i] * below;
    square += out.mix[i] * below * below;
  }
  for (double& share : out.mix) share /= sum;
  mean /= sum;
  out.divergence = theta * mean - std::log(sum);
  out.slope = theta * std::max(0.0, square / sum - mean * mean);
  return out;
}

}  // namespace

WorstCase worst_case(const PerOperation& mix, const PerOperation& costs, double rho) {
  ASSERT(rho >= 0);
  WorstCase found{mean_cost(mix, costs), mix, std::numeric_limits<double>::infinity()};
  const double most = dearest(mix, costs);
  double spread = 0, share_of_dearest = 0;
  for (std::size_t i = 0; i < kOperations; ++i) {
    if (mix[i] > 0) spread = std::max(spread, most - costs[i]);
    if (mix[i] > 0 && costs[i] == most) share_of_dearest += mix[i];
  }
  if (rho == 0 || spread <= most * 1e-15) return found;
  if (rho >= -std::log(share_of_dearest)) {
    for (std::size_t i = 0; i < kOperations; ++i) found.mix[i] = mix[i] > 0 && costs[i] == most ? mix[i] / share_of_dearest : 0;
    found.cost = most;
    found.lambda = 0;
    return found;
  }
  // theta = 1 / lambda. The divergence rises with theta from 0 to -ln(share_of_dearest), which is above rho.
  double low = 0, high = 1 / spread;
  while (tilt(mix, costs, most, high).divergence < rho && high * spread < 1e12) {
    low = high;
    high *= 4;
  }
  // Newton's method within the bounds `low` and `high`: at `low` the divergence is at most rho.
  double theta = (low + high) / 2;
  for (int i = 0; i < 100 && high - low > high * 1e-13; ++i) {
    const Tilt now = tilt(mix, costs, most, theta);
    const bool there = std::abs(now.divergence - rho) < 1e-12 * std::max(rho, 1e-3);
    (there || now.divergence <= rho ? low : high) = theta;
    if (there) break;
    const double next = now.slope > 0 ? theta - (now.divergence - rho) / now.slope : low;
    theta = next > low && next < high ? next : (low + high) / 2;
  }
  found.mix = tilt(mix, costs, most, low).mix;  // `low` keeps the mix within the ball
  found.cost = mean_cost(found.mix, costs);
  found.lambda = low > 0 ? 1 / low : found.lambda;
  return found;
}

double dual_objective(const PerOperation& mix, const PerOperation& costs, double rho, double lambda) {
  ASSERT(lambda > 0);
  const double most = dearest(mix, costs);
  double sum = 0;
  for (std::size_t i = 0; i < kOperations; ++i) sum += mix[i] > 0 ? mix[i] * std::exp((costs[i] - most) / lambda) : 0;
  return rho * lambda + most + lambda * std::log(sum);
}

}  // namespace ebbtide
