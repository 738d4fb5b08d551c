// Tests of when merges for deadlines wait for their I/O budget, and when the budget grows.
#include "db/trees/deadline_budget.h"

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct Bed {
  SimulatedClock clock;
  DeadlineBudget budget{clock};
};

TEST_CASE("deadline budget has no limit: it is never spent") {
  Bed bed;
  CHECK_FALSE(bed.budget.follow(0, 1e9));
  bed.budget.spend(std::uint64_t{1} << 40);
  CHECK((bed.budget.rate() == 0 && !bed.budget.is_spent()));
}

TEST_CASE("merge has spent the budget: the budget stays spent until enough time at its rate has passed") {
  Bed bed;
  CHECK_FALSE(bed.budget.follow(kMiB, 0));
  CHECK_FALSE(bed.budget.is_spent());
  bed.budget.spend(10 * kMiB);
  CHECK(bed.budget.is_spent());
  bed.clock.advance(5'000);
  CHECK(bed.budget.is_spent());
  bed.clock.advance(6'000);
  CHECK_FALSE(bed.budget.is_spent());
}

TEST_CASE("deadlines need more than the configured rate: the rate rises to three bytes per byte of work, and falls again") {
  Bed bed;
  CHECK_FALSE(bed.budget.follow(3'000'000, 1'000));
  CHECK(bed.budget.rate() == 3'000'000);
  CHECK(bed.budget.follow(3'000'000, 1'001));
  CHECK(bed.budget.rate() == 3'003'000);
  CHECK_FALSE(bed.budget.follow(3'000'000, 10));
  CHECK(bed.budget.rate() == 3'000'000);
}

TEST_CASE("deadlines need more than any device can do: the rate is limited to 10^15 bytes a second") {
  Bed bed;
  CHECK(bed.budget.follow(kMiB, 1e300));
  CHECK(bed.budget.rate() == 1'000'000'000'000'000);
}

TEST_CASE("work is within work_rate() of a budget: follow() does not raise the rate") {
  Bed bed;
  CHECK(DeadlineBudget::work_rate(3'000'000) == Approx(1'000));
  CHECK_FALSE(bed.budget.follow(3'000'000, DeadlineBudget::work_rate(3'000'000)));
}

}  // namespace TEST_FILE
