// Checks statements of the papers that hold for any tuning or any workload, by brute force over many of them.
#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.h"
#include "model/tuner.h"

namespace ebbtide {
namespace TEST_FILE {

System endure_system() {
  System s;
  s.entries = 1e10;
  s.entry_bytes = 1024;
  s.memory_bits = 1e11;
  return s;
}

Tuning tuning_of(Layout layout, double size_ratio, double filter_bits_per_entry) {
  const System s = endure_system();
  Tuning t;
  t.layout = layout;
  t.size_ratio = size_ratio;
  t.filter_bits = filter_bits_per_entry * s.entries;
  t.buffer_bits = s.memory_bits - t.filter_bits;
  return t;
}

std::vector<PerOperation> sampled(int count, std::uint64_t seed) {
  Random random(seed);
  std::vector<PerOperation> mixes;
  for (int i = 0; i < count; ++i) {
    PerOperation counts{};
    for (double& n : counts) n = 1 + static_cast<double>(random.uniform(9999));
    mixes.push_back(mix_of_counts(counts));
  }
  return mixes;
}

// Monkey, Eq. 8: below M_threshold the filter of the last level is not worth its memory. M_threshold is at most 1.44 bits an
// entry.
TEST_CASE("filters have less memory than Monkey's M_threshold: the last level has no filter") {
  for (int t = 2; t <= 100; ++t) {
    const double threshold = std::log(t) / (t - 1) / std::pow(std::log(2), 2);
    CAPTURE(t);
    CHECK(threshold <= 1.4427);
    const auto last_rate = [&](double bits) {
      const CostReport report =
          costs_of(endure_system(), tuning_of(Layout::kLeveling, t, bits), kEndureWorkloads[0], Equations::kPaper);
      return report.level[static_cast<std::size_t>(report.levels) - 1].false_positive_rate;
    };
    CHECK(last_rate(threshold * 0.99) == 1);
    CHECK(last_rate(threshold * 1.01) < 1);
    CHECK(last_rate(1.45) < 1);
  }
}

TEST_CASE("size ratio or buffer grows: the number of levels never rises") {
  for (const Layout layout : {Layout::kLeveling, Layout::kTiering}) {
    for (double filters = 0; filters < 10; filters += 0.5) {
      int before = kMostLevels + 1;
      for (int t = 2; t <= 100; ++t) {
        const Tuning tuning = tuning_of(layout, t, filters);
        const int levels = levels_needed(endure_system(), tuning, Equations::kPaper);
        const double buffers = endure_system().data_bits() / tuning.buffer_bits;
        CHECK(levels <= before);
        // Eq. 1: the levels hold the data, and one level less does not.
        CHECK(std::pow(t, levels) >= (buffers + 1) * (1 - 1e-9));
        CHECK((levels == 1 || std::pow(t, levels - 1) < buffers + 1));
        before = levels;
      }
    }
  }
}

// Dostoevsky, section 3: with the same T and memory, lazy leveling lies between leveling and tiering.
TEST_CASE("classic layouts are compared: leveling reads cheapest, tiering writes cheapest, lazy leveling lies between") {
  for (const Equations equations : {Equations::kPaper, Equations::kPaperRelaxed}) {
    for (int t = 2; t <= 40; ++t) {
      const auto costs = [&](Layout layout) {
        return costs_of(endure_system(), tuning_of(layout, t, 5), kEndureWorkloads[0], equations).costs;
      };
      const PerOperation leveling = costs(Layout::kLeveling), lazy = costs(Layout::kLazyLeveling),
                         tiering = costs(Layout::kTiering);
      CAPTURE(t);
      for (const Operation read : {kEmptyRead, kRead, kRange}) {
        CHECK(leveling[read] <= lazy[read] * (1 + 1e-9));
        CHECK(lazy[read] <= tiering[read] * (1 + 1e-9));
      }
      CHECK(leveling[kWrite] >= lazy[kWrite] * (1 - 1e-9));
      CHECK(lazy[kWrite] >= tiering[kWrite] * (1 - 1e-9));
    }
  }
}

// Endure, Problem 2: the worst cost of the robust tuning bounds its cost for every workload of the ball, and no other tuning has
// a lower bound.
TEST_CASE("tuning is robust: no sampled workload within rho costs more than the tuning's worst cost") {
  const std::vector<PerOperation> sample = sampled(5000, 11);
  for (const double rho : {0.25, 1.0}) {
    for (const PerOperation& expected : kEndureWorkloads) {
      TuneRequest r;
      r.system = endure_system();
      r.mix = expected;
      r.layouts = {Layout::kLeveling, Layout::kTiering};
      r.equations = Equations::kPaperRelaxed;
      const auto nominal = tune(r);
      r.rho = rho;
      const auto robust = tune(r);
      REQUIRE((nominal.is_ok() && robust.is_ok()));
      const Advice& best = robust->front();
      double most = 0;
      for (const PerOperation& mix : sample) {
        if (kl_divergence(mix, expected) <= rho) most = std::max(most, mean_cost(mix, best.report.costs));
      }
      CAPTURE(rho, expected[0], expected[1], expected[2], expected[3]);
      CHECK(most <= best.worst.cost * (1 + 1e-9));
      CHECK(kl_divergence(best.worst.mix, expected) <= rho * (1 + 1e-6));
      CHECK(mean_cost(best.worst.mix, best.report.costs) == Approx(best.worst.cost));
      CHECK(best.worst.cost <= worst_case(expected, nominal->front().report.costs, rho).cost * (1 + 1e-9));
    }
  }
}

}  // namespace TEST_FILE
}  // namespace ebbtide
