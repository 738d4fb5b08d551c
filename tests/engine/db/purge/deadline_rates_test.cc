// Tests of the measured rate of merges, and of the margin that follows from it.
#include "db/purge/deadline_rates.h"

#include <catch2/catch.hpp>

using namespace ebbtide;

namespace {
constexpr std::uint64_t kMs = 1'000'000;  // ns
}

TEST_CASE("first merge sets the rate; each later one has a weight of a quarter") {
  MergeRate rate;
  CHECK(rate.bytes_per_ms() == 0);
  rate.note(1'000'000, 10 * kMs);
  CHECK(rate.bytes_per_ms() == Approx(100'000));
  rate.note(1'000'000, 50 * kMs);
  CHECK(rate.bytes_per_ms() == Approx(0.75 * 100'000 + 0.25 * 20'000));
}

TEST_CASE("merge is too short to measure, in bytes or in time: it does not count") {
  MergeRate rate;
  rate.note((64 << 10) - 1, 10 * kMs);
  rate.note(1'000'000, kMs / 10 - 1);
  CHECK(rate.bytes_per_ms() == 0);
  rate.note(64 << 10, kMs / 10);
  CHECK(rate.bytes_per_ms() == Approx(655'360));
}

TEST_CASE("margin is a tenth of the deadline, at least a second") {
  CHECK(deadline_margin(100'000, 0, 10) == 10'000);
  CHECK(deadline_margin(5'000, 0, 10) == 1'000);
}

TEST_CASE("work is outstanding: the margin grows by 1.5 times its duration, if a rate was measured") {
  CHECK(deadline_margin(100'000, 20'000, 10) == 10'000 + 3'000);
  CHECK(deadline_margin(100'000, 20'000, 0) == 10'000);
}

TEST_CASE("work would take longer than the deadline: the margin is at most half of it") {
  CHECK(deadline_margin(100'000, 1'000'000'000, 10) == 50'000);
  CHECK(deadline_margin(1'000, 0, 10) == 500);
}
