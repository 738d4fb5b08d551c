// Compares the worst case over a ball of mixes with all mixes on a grid, and with the dual.
#include "model/robust.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.h"

namespace ebbtide {
namespace TEST_FILE {

/// Returns the largest mean cost of the mixes in steps of 1 / `steps` that are in the ball.
double worst_on_grid(const PerOperation& mix, const PerOperation& costs, double rho, int steps) {
  double worst = mean_cost(mix, costs);
  for (int a = 0; a <= steps; ++a) {
    for (int b = 0; a + b <= steps; ++b) {
      for (int c = 0; a + b + c <= steps; ++c) {
        const double n = steps;
        const PerOperation other = {a / n, b / n, c / n, (steps - a - b - c) / n};
        const double cost = mean_cost(other, costs);
        if (cost > worst && kl_divergence(other, mix) <= rho) worst = cost;
      }
    }
  }
  return worst;
}

double draw(Random* random, double low, double high) {
  return low + (high - low) * static_cast<double>(random->uniform(1'000'001)) / 1e6;
}

TEST_CASE("rho is 0: the worst case is the mean cost") {
  const PerOperation mix = {0.1, 0.2, 0.3, 0.4}, costs = {1, 2, 3, 4};
  const WorstCase found = worst_case(mix, costs, 0);
  CHECK(found.cost == mean_cost(mix, costs));
  CHECK(found.mix == mix);
  CHECK(std::isinf(found.lambda));
}

TEST_CASE("worst case is computed: it equals the maximum over a grid of mixes within rho") {
  Random random(7);
  for (int round = 0; round < 12; ++round) {
    PerOperation counts{}, costs{};
    for (std::size_t i = 0; i < kOperations; ++i) {
      counts[i] = draw(&random, 0.05, 1);
      costs[i] = draw(&random, 0, 8);
    }
    const PerOperation mix = mix_of_counts(counts);
    const double rho = draw(&random, 0.02, 1.5);
    const WorstCase found = worst_case(mix, costs, rho);
    CAPTURE(round, rho, found.cost, found.lambda);
    CHECK(kl_divergence(found.mix, mix) <= rho + 1e-9);
    CHECK(check_mix(found.mix).is_ok());
    CHECK(mean_cost(found.mix, costs) == Approx(found.cost));
    const double grid = worst_on_grid(mix, costs, rho, 100);
    CHECK(found.cost >= grid - 1e-9);
    CHECK(found.cost - grid <= 0.02 * *std::max_element(costs.begin(), costs.end()));
  }
}

TEST_CASE("worst case is computed: it equals the minimum of the dual objective") {
  const PerOperation mix = {0.33, 0.33, 0.33, 0.01}, costs = {0.2, 1.1, 2.5, 11};
  for (const double rho : {0.01, 0.25, 1.0, 2.0, 4.0}) {
    const WorstCase found = worst_case(mix, costs, rho);
    CAPTURE(rho, found.lambda);
    CHECK(dual_objective(mix, costs, rho, found.lambda) == Approx(found.cost).epsilon(1e-6));
    for (const double factor : {0.2, 0.7, 0.99, 1.01, 1.5, 10.0})
      CHECK(dual_objective(mix, costs, rho, found.lambda * factor) >= found.cost - 1e-9);
  }
}

TEST_CASE("rho allows a mix of the dearest operation alone: the worst cost is its cost, unless the expected mix lacks it") {
  const PerOperation mix = {0.5, 0.3, 0.2, 0}, costs = {1, 2, 3, 100};
  const WorstCase found = worst_case(mix, costs, 5);
  CHECK(found.cost == 3);
  CHECK(found.mix[kRange] == 1);
  CHECK(found.lambda == 0);
  CHECK(worst_case(mix, {7, 7, 7, 100}, 1).cost == Approx(7));
}

TEST_CASE("rho grows: the worst cost never falls") {
  const PerOperation mix = {0.25, 0.25, 0.25, 0.25}, costs = {0.5, 1, 4, 2};
  double before = 0;
  for (double rho = 0; rho < 2; rho += 0.05) {
    const double cost = worst_case(mix, costs, rho).cost;
    CHECK(cost >= before - 1e-9);
    before = cost;
  }
  CHECK(before == 4);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
