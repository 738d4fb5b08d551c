// Tests of the measured rate of merges, and of the margin that follows from it.
#include "db/purge/deadline_rates.h"

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kMs = 1'000'000;  // ns

TEST_CASE("merges are measured: the first sets the rate, and each later one changes it with a weight of a quarter") {
  MergeRate rate;
  CHECK(rate.bytes_per_ms() == 0);
  rate.note(1'000'000, 10 * kMs);
  CHECK(rate.bytes_per_ms() == Approx(100'000));
  rate.note(1'000'000, 50 * kMs);
  CHECK(rate.bytes_per_ms() == Approx(0.75 * 100'000 + 0.25 * 20'000));
}

TEST_CASE("merge wrote under 64 KiB or took under 0.1 ms: it does not change the measured rate") {
  MergeRate rate;
  rate.note((64 << 10) - 1, 10 * kMs);
  rate.note(1'000'000, kMs / 10 - 1);
  CHECK(rate.bytes_per_ms() == 0);
  rate.note(64 << 10, kMs / 10);
  CHECK(rate.bytes_per_ms() == Approx(655'360));
}

TEST_CASE("no work is outstanding: the margin is a tenth of the deadline, at least a second") {
  CHECK(deadline_margin(100'000, 0, 10) == 10'000);
  CHECK(deadline_margin(5'000, 0, 10) == 1'000);
}

TEST_CASE("work is outstanding and a rate was measured: the margin grows by 1.5 times the time that the work takes") {
  CHECK(deadline_margin(100'000, 20'000, 10) == 10'000 + 3'000);
  CHECK(deadline_margin(100'000, 20'000, 0) == 10'000);
}

TEST_CASE("work would take longer than the deadline: the margin is at most half of the deadline") {
  CHECK(deadline_margin(100'000, 1'000'000'000, 10) == 50'000);
  CHECK(deadline_margin(1'000, 0, 10) == 500);
}

}  // namespace TEST_FILE
