// Tests of the times from which deletes are known to be purged, and of how long the purges took.
#include <catch2/catch.hpp>

#include "db/purge/purge_history.h"

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("history of purges is shortened: its purge times may be too late, but none is too early", "[purge]") {
  PurgeHistory history;
  CHECK_FALSE(history.covers(0));
  history.note(100, 110);
  history.note(90, 120);  // a floor, before which no delete is pending, never goes back
  CHECK(history.covers(99));
  CHECK_FALSE(history.covers(100));
  CHECK(history.known_at(50) == 110);
  for (Millis t = 0; t < 100'000; t += 10) history.note(1000 + t, 1005 + t);
  for (Millis n = 0; n < 100'900; n += 37) {
    REQUIRE(history.covers(n));
    const Millis at = history.known_at(n);
    CHECK(at > n);
    if (n > 100'500) CHECK(at <= n + 15);  // the latest times are exact
  }
}

TEST_CASE("history of purges is too long: a merged step has the later purge time and the earlier survey time") {
  PurgeHistory history;
  CHECK(history.left_at(0) == 0);
  const Millis steps = 5 * PurgeHistory::kMaxSteps;
  for (Millis i = 1; i <= steps; ++i) {
    history.note(10 * i, 10 * i + 105);
    history.note(10 * i, 10 * i + 108);
  }
  for (Millis n = 0; n < 10 * steps; ++n) {
    const Millis floor = (n / 10 + 1) * 10;  // the floor of the survey that found it purged
    REQUIRE(history.covers(n));
    REQUIRE(history.known_at(n) >= floor + 105);
    REQUIRE(history.left_at(n) <= floor + 98);
  }
  CHECK(history.known_at(10 * steps - 1) == 10 * steps + 105);
  CHECK(history.left_at(10 * steps - 1) == 10 * steps + 98);
  CHECK_FALSE(history.covers(10 * steps));
  CHECK(history.left_at(10 * steps) == 10 * steps + 108);
}

TEST_CASE("trees are purged: the persist time of each tree's oldest delete is counted in the right bucket") {
  PersistTimes times;
  times.note({{2, 500}}, {{1, 1000}, {2, 500}}, 1000);  // tree 1 has no pending deletes
  times.note({{1, 1500}, {2, 500}}, {{1, 1500}, {2, 500}}, 2000);
  times.note({{1, 1500}}, {{1, 1500}, {2, 2500}}, 2600);  // of tree 2 only a floor is left: it has no pending deletes
  HistogramInfo info = times.info();
  REQUIRE(info.buckets.size() == info.bounds.size() + 1);
  CHECK(info.bounds[1] == 2);
  CHECK(info.buckets[2] == 1);  // 2.1 s
  CHECK(info.sum == Approx(2.1));
  times.note({{2, 3000}}, {{1, 3500}, {2, 3000}}, 3500);
  info = times.info();
  CHECK(info.buckets[1] == 1);  // 2 s belong to the bucket up to 2 s
  CHECK(info.sum == Approx(2.1 + 2.0));
  times.note({}, {{1, 4000}}, 4000);  // the whole tree 2 is removed
  CHECK(times.info().buckets[0] == 1);
  times.note({{1, 5000}}, {{1, 5000}}, 6000);
  times.note({}, {{1, 4'000'000'000}}, 4'000'000'000);
  CHECK(times.info().buckets.back() == 1);
}

}  // namespace TEST_FILE
