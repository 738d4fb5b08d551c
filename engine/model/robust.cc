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

/// w_i e^((c_i - most) theta), normed.
PerOperation tilted(const PerOperation& mix, const PerOperation& costs, double most, double theta) {
  PerOperation out{};
  double sum = 0;
  for (std::size_t i = 0; i < kOperations; ++i) {
    out[i] = mix[i] > 0 ? mix[i] * std::exp((costs[i] - most) * theta) : 0;
    sum += out[i];
  }
  for (double& share : out) share /= sum;
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
  while (kl_divergence(tilted(mix, costs, most, high), mix) < rho && high * spread < 1e12) {
    low = high;
    high *= 4;
  }
  for (int i = 0; i < 60 && high - low > high * 1e-12; ++i) {
    const double middle = (low + high) / 2;
    (kl_divergence(tilted(mix, costs, most, middle), mix) < rho ? low : high) = middle;
  }
  found.mix = tilted(mix, costs, most, low);  // within the ball
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
