// Tests that the flush rate follows flushes and pauses. Time is an argument.
#include <catch2/catch.hpp>

#include "db/trees/flush_rate.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST_CASE("flush rate is measured: it follows the last flushes, and is 0 (unknown) before the fifth") {
  FlushRate rate;
  Millis now = 1000;
  CHECK(rate.within(10'000, now) == 0);
  for (int i = 0; i < 5; ++i) {
    CHECK(rate.within(10'000, now) == 0);
    rate.note(3 * kMiB, now += 300);
  }
  CHECK(rate.within(10'000, now) == 100 * kMiB);
  // Now flushes are ten times as fast, each in several parts at the same moment.
  for (int i = 0; i < 60; ++i) {
    now += 30;
    for (int part = 0; part < 3; ++part) rate.note(kMiB, now);
  }
  CHECK(rate.within(10'000, now) == Approx(1000.0 * kMiB).epsilon(0.05));
}

TEST_CASE("flushes pause: the flush rate falls") {
  FlushRate rate;
  Millis now = 1000;
  for (int i = 0; i < 20; ++i) rate.note(kMiB, now += 100);
  const std::uint64_t before = rate.within(10'000, now);
  CHECK(rate.within(10'000, now + 100) == before);
  const std::uint64_t paused = rate.within(10'000, now + 3'600'000);
  CHECK(paused < before / 1000);
  CHECK(paused > 0);  // 0 would mean unknown
}

}  // namespace TEST_FILE
