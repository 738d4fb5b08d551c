// Tests of which table the scrub takes next, and when.
#include <catch2/catch.hpp>

#include <cstdint>
#include <vector>

#include "db/background/scrub_walk.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr Millis kHour = 3'600'000, kDay = 24 * kHour;

// Runs the walk for `time`, with a check every minute. Returns the numbers of the tables that it took.
std::vector<std::uint64_t> walk(ScrubWalk* scrub, const std::vector<ScrubWalk::Table>& tables, Millis* now, Millis time,
                                Millis interval) {
  std::vector<std::uint64_t> taken;
  for (const Millis end = *now + time; *now < end; *now += 60'000) {
    if (!scrub->due(*now, interval)) continue;
    if (const auto* table = scrub->next(tables, *now)) taken.push_back(table->number);
  }
  return taken;
}

TEST_CASE("scrub walks the tables: it visits each table once per interval, and pauses longer after larger tables") {
  std::vector<ScrubWalk::Table> tables = {{9, 500}, {4, 100}, {30, 300}, {12, 100}};
  ScrubWalk scrub(4);  // begins after table 4
  Millis now = 1'000'000;
  CHECK(walk(&scrub, tables, &now, 10 * 60'000, kDay) == std::vector<std::uint64_t>{9});
  CHECK(walk(&scrub, tables, &now, kDay / 2, kDay) == std::vector<std::uint64_t>{12});
  CHECK(walk(&scrub, tables, &now, kDay / 2 - kHour, kDay) == std::vector<std::uint64_t>{30, 4});
  // From then on every table is read each day. A new table is read when the walk reaches its number; a removed table is skipped.
  for (int day = 0; day < 3; ++day) {
    const auto taken = walk(&scrub, tables, &now, kDay + 10 * 60'000, kDay);
    CHECK(std::set(taken.begin(), taken.end()) == std::set<std::uint64_t>{4, 9, 12, 30});
    CHECK(taken.size() <= 6);
  }
  tables = {{9, 500}, {31, 500}};
  const auto taken = walk(&scrub, tables, &now, 2 * kDay, kDay);
  CHECK(std::set(taken.begin(), taken.end()) == std::set<std::uint64_t>{9, 31});
}

TEST_CASE("scrub waits for its next table: it soon notices new tables and a shorter interval") {
  ScrubWalk scrub(0);
  Millis now = 1'000'000;
  CHECK(walk(&scrub, {}, &now, kDay, kDay).empty());
  CHECK(walk(&scrub, {{3, 10}}, &now, 2 * 60'000, 30 * kDay) == std::vector<std::uint64_t>{3});
  CHECK(walk(&scrub, {{3, 10}}, &now, kDay, 30 * kDay).empty());
  CHECK(walk(&scrub, {{3, 10}}, &now, 3 * kHour, kHour).size() >= 2);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
