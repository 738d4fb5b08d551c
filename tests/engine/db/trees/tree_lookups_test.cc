// Tests that lookups are counted by thread and added up. The sums give the arrivals: the probability that a lookup reaches a
// level.
#include <catch2/catch.hpp>

#include "db/trees/tree_lookups.h"

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("lookups are counted: total() returns sums by level, and tile_use() the counts that decide the tile size") {
  TreeLookups lookups;
  CHECK(lookups.total()[0].denied == 0);
  lookups.mine().levels[0].denied = 3;
  lookups.mine().levels[lookup_level(100)].found = 2;
  lookups.mine().pages_in_vain = 5;
  lookups.mine().range_deletes = 1;
  CHECK(lookups.total()[0].denied == 3);
  CHECK(lookups.total()[kLookupLevels - 1].found == 2);
  CHECK(lookups.tile_use().pages_in_vain == 5);
  CHECK(lookups.tile_use().range_deletes == 1);
}

TEST_CASE("lookups are counted by level: the probability to reach a level follows from lookups that found nothing above") {
  std::array<std::uint64_t, kLookupLevels> runs{};
  runs[0] = 4;
  runs[1] = runs[2] = 1;
  LookupsByLevel lookups{};
  lookups[0] = {39'000, 1'000, 0};  // four runs of ten thousand lookups each
  lookups[1] = {9'000, 1'000, 0};
  lookups[2] = {1'000, 0, 9'000};
  const Arrivals measured = measured_arrivals(all_arrive(), lookups, runs).value();
  CHECK(measured[0] == 1);
  CHECK(measured[1] == 1);
  CHECK(measured[2] == Approx((1 + 0.1) / 2));
  CHECK(measured[3] == 1);  // without lookups the probability is 1
  lookups[2] = {0, 0, 9'000};
  CHECK(measured_arrivals(measured, lookups, runs).value()[2] == Approx((measured[2] + 1.0 / 16) / 2));
  lookups = {};
  lookups[0].found = 4'000 * 4;
  CHECK_FALSE(measured_arrivals(measured, lookups, runs));
}

}  // namespace TEST_FILE
