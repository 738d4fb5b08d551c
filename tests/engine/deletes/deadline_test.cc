// Tests of the time by which a delete is due, also if deadlines change.
#include "deletes/deadline.h"

#include <catch2/catch.hpp>

#include "base/random.h"

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("deadline never changes: a delete is due at its birth plus the deadline") {
  CHECK(DeadlineRule(100).due(7) == 107);
  CHECK(DeadlineRule(0).due(7) == DeadlineRule::kNever);
  CHECK(DeadlineRule(0).never());
  CHECK_FALSE(DeadlineRule(100).never());
  CHECK(DeadlineRule(100).due(DeadlineRule::kNever - 50) == DeadlineRule::kNever);
}

TEST_CASE("deadline changes: earlier births are due at min(birth + old deadline, change + new deadline)") {
  DeadlineRule rule(100);
  rule.change(1000, 100);  // this is no change
  CHECK(rule.due(950) == 1050);
  SECTION("deadline becomes shorter") {
    rule.change(1000, 10);
    CHECK(rule.due(890) == 990);    // the old deadline is earlier
    CHECK(rule.due(950) == 1010);   // the new deadline counts from the change on
    CHECK(rule.due(1000) == 1010);  // born in the same ms
    CHECK(rule.due(1001) == 1011);
    CHECK(rule.shortest() == 10);
  }
  SECTION("deadline becomes longer") {
    rule.change(1000, 500);
    CHECK(rule.due(950) == 1050);
    CHECK(rule.due(1000) == 1100);  // born in the same ms, so the stricter deadline applies
    CHECK(rule.due(1001) == 1501);
    CHECK(rule.shortest() == 100);
  }
  SECTION("deadline is switched off, and on again") {
    rule.change(1000, 0);
    CHECK(rule.due(950) == 1050);
    CHECK(rule.due(1001) == DeadlineRule::kNever);
    CHECK_FALSE(rule.never());
    rule.change(2000, 20);
    CHECK(rule.due(950) == 1050);
    CHECK(rule.due(1500) == 2020);  // there was no promise at its birth; it got one at the change
    CHECK(rule.due(2500) == 2520);
  }
}

TEST_CASE("no delete born before a change of deadline is left: forget() drops the change") {
  DeadlineRule rule(100);
  rule.change(1000, 10);
  rule.change(2000, 500);
  CHECK_FALSE(rule.forget(1000));  // a delete born in the ms of the change may be left
  CHECK(rule.due(950) == 1010);
  CHECK(rule.forget(1001));
  CHECK(rule.earlier().size() == 1);
  CHECK(rule.due(1500) == 1510);
  CHECK(rule.due(2001) == 2501);
  CHECK(rule.shortest() == 10);
  CHECK(rule.forget(5000));
  CHECK(rule.shortest() == 500);
  CHECK(rule == DeadlineRule(500));
  rule.change(6000, 0);
  CHECK_FALSE(rule.never());
  CHECK(rule.forget(6001));
  CHECK(rule.never());
}

TEST_CASE("deadline changes many times: due times keep the order of births, and no delete gets more time than before") {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    DeadlineRule rule(random.uniform(3) == 0 ? 0 : 1 + random.uniform(500));
    Millis now = 1000;
    std::vector<std::pair<Millis, Millis>> promised;  // birth and due time
    for (int change = 0; change < 40; ++change) {
      for (int i = 0; i < 3; ++i) {
        now += random.uniform(60);
        promised.emplace_back(now, rule.due(now));
      }
      now += random.uniform(100);
      rule.change(now, random.uniform(4) == 0 ? 0 : 1 + random.uniform(500));
      Millis before = 0;
      for (auto& [birth, due] : promised) {
        const Millis is = rule.due(birth);
        REQUIRE(is <= due);
        REQUIRE(is >= before);
        before = due = is;
      }
    }
  }
}

}  // namespace TEST_FILE
