// Tests of costs by simulation, for policies with and without a closed form.
#include "tools/tune_simulated.h"

#include <catch2/catch.hpp>

namespace ebbtide {
namespace TEST_FILE {

constexpr PerOperation kMix = {0.25, 0.25, 0.25, 0.25};
constexpr double kBuffer = 8e5;  // in bits: a thousand entries of 100 bytes

System system_of(double flushes) {
  System s;
  s.entry_bytes = 100;
  s.entries = flushes * 1000;
  s.memory_bits = 1e9;
  return s;
}

PolicySettings policy(const char* name, std::map<std::string, double> parameters) { return {name, std::move(parameters)}; }

TEST_CASE("tiering is simulated: each operation costs 40 % to 105 % of the model's costs for a full tree") {
  const System s = system_of(1023);
  Tuning t;
  t.layout = Layout::kTiering;
  t.size_ratio = 4;
  t.buffer_bits = kBuffer;
  t.filter_bits = 5 * s.entries;
  const CostReport model = costs_of(s, t, kMix);
  const auto simulated = simulated_costs(s, policy("tiering", {{"size_ratio", 4}}), t.filter_bits, kBuffer, kMix);
  REQUIRE(simulated.is_ok());
  for (const Operation operation : {kEmptyRead, kRead, kRange, kWrite}) {
    CAPTURE(operation_name(operation));
    CHECK(simulated->costs[operation] <= model.costs[operation] * 1.05);
    CHECK(simulated->costs[operation] >= model.costs[operation] / 2.5);
  }
  // A level is written once, whether it is full or not. On average half of its runs exist, but the last level is filled to five
  // sixths.
  CHECK(simulated->write_amplification == Approx(model.write_amplification).epsilon(0.1));
  CHECK(simulated->costs[kRange] == Approx(4 * 1.5 + 2.5).epsilon(0.02));
}

TEST_CASE("stack may have more runs: simulated writes become cheaper, and range reads dearer") {
  const System s = system_of(2000);
  for (const char* name : {"bigtable", "constant", "min_latency", "binomial"}) {
    const auto few = simulated_costs(s, policy(name, {{"k", 3}}), 5 * s.entries, kBuffer, kMix);
    const auto many = simulated_costs(s, policy(name, {{"k", 8}}), 5 * s.entries, kBuffer, kMix);
    REQUIRE((few.is_ok() && many.is_ok()));
    CAPTURE(name);
    CHECK(few->costs[kRange] <= 3);
    CHECK(many->costs[kRange] <= 8);
    CHECK(many->costs[kRange] > few->costs[kRange]);
    CHECK(many->costs[kWrite] < few->costs[kWrite]);
    CHECK(many->costs[kRead] >= 1);
    CHECK(many->levels <= 8);
  }
}

TEST_CASE("cache serves half of the page reads, and a page write costs 3 times as much: reads cost half, writes twice as much") {
  System s = system_of(200);
  const PolicySettings exploring = policy("exploring", {{"k", 4}});
  const auto plain = simulated_costs(s, exploring, 5 * s.entries, kBuffer, kMix);
  s.miss_ratios = {0.5};
  s.write_asymmetry = 3;
  const auto other = simulated_costs(s, exploring, 5 * s.entries, kBuffer, kMix);
  REQUIRE((plain.is_ok() && other.is_ok()));
  CHECK(other->costs[kRange] == Approx(plain->costs[kRange] / 2));
  CHECK(other->costs[kEmptyRead] == Approx(plain->costs[kEmptyRead] / 2));
  CHECK(other->costs[kWrite] == Approx(plain->costs[kWrite] * 2));  // a page is read (1) and written (1 before, 3 now): 2 and 4
}

TEST_CASE("policy is unknown, or flushes are too many to simulate: simulated_costs() returns an error") {
  const System s = system_of(100);
  CHECK(simulated_costs(s, policy("nothing", {}), 0, kBuffer, kMix).status().to_string().find("no policy \"nothing\"") !=
        std::string::npos);
  CHECK_FALSE(simulated_costs(s, policy("binomial", {{"k", 1000}}), 0, kBuffer, kMix).is_ok());
  CHECK(simulated_costs(system_of(1e6), policy("binomial", {}), 0, kBuffer, kMix)
            .status()
            .to_string()
            .find("give a larger buffer") != std::string::npos);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
