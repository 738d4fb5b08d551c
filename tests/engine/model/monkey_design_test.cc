// Compares Monkey's Algorithms 1 and 5 with grids and with the paper's statements.
#include "model/monkey_design.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace ebbtide {
namespace TEST_FILE {

/// Returns Figure 7's data: 512 GB in 2^35 entries of 16 bytes, pages of 4 KB.
System monkey_system(double bits_per_entry) {
  System s;
  s.entries = std::pow(2, 35);
  s.entry_bytes = 16;
  s.memory_bits = bits_per_entry * s.entries;
  return s;
}

/// Returns Eq. 25 without its constant, which does not depend on the filters: a point read above the threshold, and levels
/// without rounding.
double equation_25(const System& s, const PerOperation& mix, bool tiering, double t, double filter_bits) {
  const double points = mix[kEmptyRead] + mix[kRead], found = mix[kRead] / points;
  const double last = tiering ? 1 - found * t / (t - 1) / 2 : 1 - found;
  const double read = std::pow(t, t / (t - 1)) / (tiering ? 1 : t - 1) * std::pow(last, (t - 1) / t) *
                      std::exp(-filter_bits / s.entries * std::log(2) * std::log(2));
  const double levels = std::log(s.data_bits() / (s.memory_bits - filter_bits) * (t - 1) / t) / std::log(t);
  const double write = (t - 1) / (tiering ? t : 2) * (1 + s.write_asymmetry) / s.entries_per_page();
  return points * read + (mix[kRange] * (tiering ? t - 1 : 1) + mix[kWrite] * write) * levels;
}

TEST_CASE("memory is divided by Monkey's Algorithm 5: filters get the memory at which Eq. 25 is smallest") {
  for (const double bits : {4.0, 10.0, 20.0}) {
    for (const bool tiering : {false, true}) {
      for (const double t : {2.0, 4.0, 10.0}) {
        for (const PerOperation& mix :
             {PerOperation{.4, .2, .1, .3}, PerOperation{.9, .05, 0, .05}, PerOperation{.05, .05, .1, .8}}) {
          const System s = monkey_system(bits);
          const double found = monkey_filter_memory(s, mix, tiering, t);
          const double cost = equation_25(s, mix, tiering, t, found);
          CAPTURE(bits, tiering, t, found / s.memory_bits);
          CHECK(found >= 0);
          CHECK(found < s.memory_bits);
          for (double share = 0; share < 0.9999; share += 0.01)
            CHECK(cost <= equation_25(s, mix, tiering, t, share * s.memory_bits) * (1 + 1e-9));
        }
      }
    }
  }
}

// Appendix C.1: if memory is small, all of it goes to the buffer.
TEST_CASE("memory is below gamma / (alpha beta): Algorithm 5 gives filters no memory") {
  const PerOperation mix = {.01, 0, .5, .49};
  const System s = monkey_system(0.5);
  CHECK(monkey_filter_memory(s, mix, false, 4) == 0);
  CHECK(monkey_filter_memory(monkey_system(200), {1, 0, 0, 0}, false, 4) == Approx(200 * std::pow(2, 35)).epsilon(1e-3));
}

TEST_CASE("Algorithm 1 designs a tree: no design on a grid of T, memory and policy is cheaper") {
  for (const PerOperation& mix :
       {PerOperation{.5, .2, .01, .29}, PerOperation{.05, .05, .01, .89}, PerOperation{.1, .8, .05, .05}}) {
    const System s = monkey_system(8);
    const auto found = monkey_design(s, mix);
    REQUIRE(found.is_ok());
    CHECK(found->levels == Approx(std::round(found->levels)).margin(1e-6));
    double best = 1e300;
    for (int levels = 1; levels <= 24; ++levels) {
      for (int i = 0; i < 400; ++i) {
        const double filters = s.memory_bits * i / 400;
        // T of a full tree with that many levels is computed by fixed-point iteration.
        const double ratio = s.data_bits() / (s.memory_bits - filters);
        double t = 100;
        for (int k = 0; k < 300; ++k) t = std::pow(ratio * (t - 1), 1.0 / (levels + 1));
        if (!(t >= 2)) continue;
        for (const bool tiering : {false, true}) best = std::min(best, monkey_costs(s, mix, tiering, t, filters).cost);
      }
    }
    CAPTURE(found->levels, found->size_ratio, found->tiering, found->filter_bits / s.memory_bits);
    CHECK(found->cost <= best * (1 + 1e-6));
  }
}

TEST_CASE("share of reads rises: filters get more memory") {
  const System s = monkey_system(10);
  const auto reads = monkey_design(s, {.9, .05, .01, .04}), writes = monkey_design(s, {.02, .02, 0, .96});
  REQUIRE((reads.is_ok() && writes.is_ok()));
  CHECK(reads->filter_bits > writes->filter_bits);
  CHECK_FALSE(reads->tiering);
  CHECK(writes->tiering);
}

// Section 4.2: at T = 2 tiering and leveling are the same.
TEST_CASE("size ratio T is 2: tiering and leveling cost the same") {
  const System s = monkey_system(10);
  const PerOperation mix = {.5, 0, .1, .4};
  for (const double share : {0.0, 0.1, 0.5, 0.9})
    CHECK(monkey_costs(s, mix, false, 2, share * s.memory_bits).cost ==
          Approx(monkey_costs(s, mix, true, 2, share * s.memory_bits).cost));
}

// Figure 10, T = 2: filters for found keys gain up to about 20 % over those for absent keys alone, nothing at 1 bit, and up to
// about 80 % over uniform filters.
TEST_CASE("filters are optimal for the mix: they save as many page reads as Figure 10 shows") {
  constexpr double kFound = 0.99, kLevels = 18;  // levels for 512 GB with a buffer of 2 MB
  const PerOperation mix = {1 - kFound, kFound, 0, 0};
  double over_zero = 0, over_uniform = 0;
  for (const double bits : {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0}) {
    System s = monkey_system(bits);
    s.memory_bits += 8.0 * 2 * 1024 * 1024;
    const double filters = bits * s.entries, uniform = std::exp(-bits * std::log(2) * std::log(2));
    const MonkeyDesign general = monkey_costs(s, mix, false, 2, filters);
    CHECK(general.levels == Approx(kLevels - 1).margin(1.1));
    const double absent = monkey_costs(s, {1, 0, 0, 0}, false, 2, filters).point_read;  // R
    const double last = std::min(1.0, absent / 2);                                      // p_L of these filters (Eq. 5)
    const double zero = absent + kFound * (1 - last);                                   // Eq. 13
    const double uniform_cost = kLevels * uniform + kFound * (1 - uniform);
    over_zero = std::max(over_zero, zero / general.point_read - 1);
    over_uniform = std::max(over_uniform, 1 - general.point_read / uniform_cost);
    if (bits == 1) CHECK(zero == Approx(general.point_read).epsilon(1e-3));
    CHECK(zero >= general.point_read * (1 - 1e-9));
  }
  CHECK(over_zero == Approx(0.20).margin(0.03));
  CHECK(over_uniform == Approx(0.80).margin(0.03));
}

TEST_CASE("data fits into memory: monkey_design() refuses to design, and Algorithm 5 leaves memory for a buffer") {
  System s = monkey_system(10);
  s.entries = 1;
  s.memory_bits = 8e20;
  const PerOperation mix = {.8, .05, 0, .15};
  CHECK(monkey_design(s, mix).status().to_string().find("the data fits into the memory") != std::string::npos);
  CHECK(monkey_filter_memory(s, mix, true, 4) < s.memory_bits);
  s.memory_bits = 1000;
  CHECK(monkey_design(s, mix).status().to_string().find("allowed: more than a page") != std::string::npos);
}

TEST_CASE("Algorithm 5 is used for each whole T: the result is the cheapest of them, and near Algorithm 1's design") {
  for (const PerOperation& mix : {PerOperation{.4, .2, .1, .3}, PerOperation{.6, .3, 0, .1}, PerOperation{.05, .05, .1, .8}}) {
    const System s = monkey_system(10);
    const auto found = monkey_navigation(s, mix, {});
    REQUIRE(found.is_ok());
    CHECK(found->filter_bits == monkey_filter_memory(s, mix, found->tiering, found->size_ratio));
    for (int t = 2; t <= 100; ++t) {
      for (const bool tiering : {false, true})
        CHECK(found->cost <= monkey_costs(s, mix, tiering, t, monkey_filter_memory(s, mix, tiering, t)).cost * (1 + 1e-12));
    }
    CHECK(found->cost <= 1.1 * monkey_design(s, mix)->cost);
  }
}

TEST_CASE("navigation has bounds on costs and a range of T: the design keeps within both") {
  const System s = monkey_system(10);
  const PerOperation mix = {.2, .1, .1, .6};
  const auto free = monkey_navigation(s, mix, {});
  REQUIRE(free.is_ok());
  const MonkeyBounds bounds{.write = free->write / 2};
  const auto bound = monkey_navigation(s, mix, {}, bounds);
  REQUIRE(bound.is_ok());
  CHECK((bound->write <= bounds.write && bound->cost >= free->cost));
  const auto ten = monkey_navigation(s, mix, {.size_ratio_min = 10, .size_ratio_max = 10, .tiering = false});
  REQUIRE(ten.is_ok());
  CHECK((ten->size_ratio == 10 && !ten->tiering));
  CHECK(monkey_navigation(s, mix, {}, {.write = 1e-9}).status().to_string().find("no design keeps the bounds") !=
        std::string::npos);
}

TEST_CASE("costs have bounds: the design keeps within them, or an error is returned") {
  const System s = monkey_system(10);
  const PerOperation mix = {.2, .1, .1, .6};
  const auto free = monkey_design(s, mix);
  REQUIRE(free.is_ok());
  MonkeyBounds bounds;
  bounds.point_read = free->point_read / 3 + 1.0 / 3 / 1.5;
  const auto reads = monkey_design(s, mix, bounds);
  REQUIRE(reads.is_ok());
  CHECK(reads->point_read <= bounds.point_read);
  CHECK(reads->cost >= free->cost);
  bounds = {};
  bounds.write = free->write / 2;
  const auto writes = monkey_design(s, mix, bounds);
  REQUIRE(writes.is_ok());
  CHECK(writes->write <= bounds.write);
  CHECK(writes->cost >= free->cost);
  bounds.write = 1e-9;
  CHECK(monkey_design(s, mix, bounds).status().to_string().find("no design keeps the bounds") != std::string::npos);
  CHECK_FALSE(monkey_design(s, {1, 1, 1, 1}).is_ok());
}

}  // namespace TEST_FILE
}  // namespace ebbtide
