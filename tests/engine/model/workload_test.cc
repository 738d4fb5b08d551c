// Tests of mixes, their divergence, and rho from a history, from ranges and from two workloads.
#include "model/workload.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr PerOperation kEven = {0.25, 0.25, 0.25, 0.25};

TEST_CASE("mix has a share out of range or a wrong sum: check_mix() returns an error with the reason") {
  CHECK(check_mix(kEven).is_ok());
  CHECK(check_mix({1.5, -0.5, 0, 0}).to_string().find("the share of empty read is 1.5") != std::string::npos);
  CHECK(check_mix({0.5, 0.5, 0.5, 0}).to_string().find("sum to 1.5") != std::string::npos);
  CHECK_FALSE(check_mix({std::nan(""), 0, 0, 1}).is_ok());
}

TEST_CASE("divergence of mixes is computed: zero if equal, positive otherwise, infinite if one lacks an operation") {
  CHECK(kl_divergence(kEven, kEven) == 0);
  CHECK(kl_divergence({1, 0, 0, 0}, kEven) == Approx(std::log(4)));
  CHECK(kl_divergence({0.5, 0.5, 0, 0}, kEven) == Approx(std::log(2)));
  CHECK(std::isinf(kl_divergence(kEven, {0.5, 0.5, 0, 0})));
}

TEST_CASE("small shares are raised to the smallest share: the others shrink in proportion") {
  const PerOperation mix = with_smallest_share({0.9, 0.1, 0, 0}, 0.01);
  CHECK(mix[2] == 0.01);
  CHECK(mix[3] == 0.01);
  CHECK(mix[0] / mix[1] == Approx(9));
  CHECK(check_mix(mix).is_ok());
  const PerOperation edge =
      with_smallest_share({0.9801, 0.0101, 0.0098, 0}, 0.01);  // the second falls below the smallest share when it shrinks
  for (const double share : edge) CHECK(share >= 0.01);
  CHECK(check_mix(edge).is_ok());
}

TEST_CASE("rho is computed from a history: it is the largest divergence of a window from the mean") {
  const std::vector<PerOperation> windows = {{4000, 4000, 1000, 1000}, {1000, 1000, 4000, 4000}};
  const auto found = uncertainty_from_history(windows);
  REQUIRE(found.is_ok());
  for (const double share : found->expected) CHECK(share == Approx(0.25));
  CHECK(found->rho == Approx(kl_divergence({0.4, 0.4, 0.1, 0.1}, kEven)));
}

TEST_CASE("windows of a history are small: they are merged until each has 1,000 operations") {
  const std::vector<PerOperation> halves = {{400, 0, 0, 0}, {0, 600, 0, 0}, {400, 600, 0, 0}, {1, 0, 0, 0}};
  const auto found = uncertainty_from_history(halves);
  REQUIRE(found.is_ok());
  CHECK(found->rho < 0.001);
  CHECK(found->expected[kRange] == Approx(kSmallestShare));
  CHECK_FALSE(uncertainty_from_history(std::vector<PerOperation>{{999, 0, 0, 0}}).is_ok());
  CHECK_FALSE(uncertainty_from_history(std::vector<PerOperation>{{2000, -1, 0, 0}}).is_ok());
}

TEST_CASE("rho is computed from bounds of shares: it is the divergence of the farthest mix within them") {
  const PerOperation low = {0.1, 0.2, 0.0, 0.05}, high = {0.5, 0.6, 0.3, 0.4};
  const auto found = uncertainty_from_ranges(low, high);
  REQUIRE(found.is_ok());
  double farthest = 0;
  constexpr int kSteps = 40;
  for (int i = 0; i <= kSteps; ++i) {
    for (int j = 0; j <= kSteps; ++j) {
      for (int k = 0; k <= kSteps; ++k) {
        PerOperation mix = {low[0] + (high[0] - low[0]) * i / kSteps, low[1] + (high[1] - low[1]) * j / kSteps,
                            low[2] + (high[2] - low[2]) * k / kSteps, 0};
        mix[3] = 1 - mix[0] - mix[1] - mix[2];
        if (mix[3] < low[3] || mix[3] > high[3]) continue;
        farthest = std::max(farthest, kl_divergence(mix, found->expected));
      }
    }
  }
  CHECK(found->rho >= farthest - 1e-12);
  CHECK(found->rho == Approx(farthest).epsilon(0.02));
  CHECK_FALSE(uncertainty_from_ranges({0.5, 0.5, 0.1, 0}, {1, 1, 1, 1}).is_ok());
  CHECK_FALSE(uncertainty_from_ranges({0, 0, 0, 0}, {0.2, 0.2, 0.2, 0.2}).is_ok());
  CHECK_FALSE(uncertainty_from_ranges({0.3, 0, 0, 0}, {0.2, 1, 1, 1}).is_ok());
}

TEST_CASE("rho is computed from two workloads, one lacking an operation: it is finite") {
  const auto found = uncertainty_between({0.5, 0.5, 0, 0}, {0, 0, 0, 1});
  REQUIRE(found.is_ok());
  CHECK(found->rho > 3);
  CHECK(std::isfinite(found->rho));
  CHECK_FALSE(uncertainty_between(kEven, {1, 1, 0, 0}).is_ok());
}

}  // namespace TEST_FILE
}  // namespace ebbtide
