#include "io/rate_limiter.h"

#include <catch2/catch.hpp>

#include <thread>
#include <vector>

namespace ebbtide {
namespace TEST_FILE {

constexpr std::uint64_t kMs = 1'000'000;

TEST_CASE("rate is unlimited: no request waits") {
  SimulatedClock clock;
  RateLimiter limiter(clock, 0);
  REQUIRE(limiter.request(~std::uint64_t{0}) == 0);
  REQUIRE(limiter.rate() == 0);
}

TEST_CASE("rate is limited: the wait of each request is that of all requested bytes divided by the rate") {
  SimulatedClock clock;
  RateLimiter limiter(clock, 1'000'000);  // 1 byte per microsecond
  REQUIRE(limiter.request(0) == 0);
  REQUIRE(limiter.request(10'000) == 10 * kMs);
  REQUIRE(limiter.request(5'000) == 15 * kMs);
  clock.advance(15);
  REQUIRE(limiter.request(1'000) == 1 * kMs);
}

TEST_CASE("rate limiter is idle: its bucket fills up to the burst and no further") {
  SimulatedClock clock;
  RateLimiter limiter(clock, 1'000'000);
  clock.advance(10'000);
  REQUIRE(limiter.request(50'000) == 0);
  REQUIRE(limiter.request(1'000) == 1 * kMs);
}

TEST_CASE("requests wait as limited: in any period, no more bytes pass than rate times time, plus the burst") {
  SimulatedClock clock;
  RateLimiter limiter(clock, 4'000'000);
  std::uint64_t passed = 0;
  const Millis start = clock.boot_ms();
  for (int i = 0; i < 500; ++i) {
    const std::uint64_t bytes = 1000 + static_cast<std::uint64_t>(i) * 37 % 50'000;
    const std::uint64_t wait = limiter.request(bytes);
    clock.advance((wait + kMs - 1) / kMs);
    passed += bytes;
    const std::uint64_t elapsed = clock.boot_ms() - start;
    REQUIRE(passed <= elapsed * 4'000 + 4'000 * RateLimiter::kBurstNs / kMs);
  }
  // Not much less passes either, since rounding up to 1 ms costs little.
  REQUIRE(passed + 4'000 * 600 >= (clock.boot_ms() - start) * 4'000);
}

TEST_CASE("rate changes: the new rate also applies to bytes that already wait") {
  SimulatedClock clock;
  RateLimiter limiter(clock, 1'000'000);
  REQUIRE(limiter.request(100'000) == 100 * kMs);
  limiter.set_rate(10'000'000);
  REQUIRE(limiter.rate() == 10'000'000);
  REQUIRE(limiter.request(0) == 10 * kMs);
  limiter.set_rate(0);
  REQUIRE(limiter.request(1'000'000) == 0);
  limiter.set_rate(1'000'000);
  REQUIRE(limiter.request(1'000) == 1 * kMs);
}

TEST_CASE("request is huge and the rate tiny: the wait is an hour, without an overflow") {
  SimulatedClock clock;
  RateLimiter limiter(clock, 1);
  REQUIRE(limiter.request(~std::uint64_t{0}) == 3'600'000 * kMs);
  REQUIRE(limiter.request(~std::uint64_t{0}) == 3'600'000 * kMs);
}

TEST_CASE("several threads request bytes: they share one rate limit", "[threads]") {
  SimulatedClock clock;
  RateLimiter limiter(clock, 1'000'000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) limiter.request(10);
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(limiter.request(0) == 40 * kMs);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
