// Tests of failed authentications: the delays of their network, and the lines in the log.
#include "acl/auth_guard.h"

#include <catch2/catch.hpp>
#include <vector>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("auth guard: network has used up its free failures: each further failure doubles its delay, up to a limit") {
  AuthGuard guard;
  std::vector<std::uint32_t> delays;
  for (int i = 0; i < 11; ++i) {
    delays.push_back(guard.delay_ms("10.0.0.1", 1'000));
    (void)guard.failed("10.0.0.1", "10.0.0.1:5", "default", 1'000);
  }
  CHECK(delays == std::vector<std::uint32_t>{0, 0, 0, 100, 200, 400, 800, 1'600, 2'000, 2'000, 2'000});
  for (int i = 0; i < 100; ++i) (void)guard.failed("10.0.0.1", "10.0.0.1:5", "default", 1'000);
  CHECK(guard.delay_ms("10.0.0.1", 1'000) == AuthGuard::kMaxDelayMs);
  CHECK(guard.delay_ms("10.0.0.2", 1'000) == 0);
}

TEST_CASE("auth guard: network has had no failure for a minute: the guard forgets the network") {
  AuthGuard guard;
  for (int i = 0; i < 5; ++i) (void)guard.failed("n", "a", "u", 1'000);
  CHECK(guard.delay_ms("n", 60'999) == 200 * 2);
  CHECK(guard.delay_ms("n", 61'000) == 0);
  CHECK(guard.networks() == 0);
}

TEST_CASE("auth guard: more networks fail than the guard may remember: it remembers the latest") {
  AuthGuard guard;
  for (int i = 0; i < 10'000; ++i) {
    for (int n = 0; n < 4; ++n) (void)guard.failed("net" + std::to_string(i), "a", "u", 1'000);
  }
  CHECK(guard.networks() == AuthGuard::kNetworks);
  CHECK(guard.delay_ms("net9999", 1'000) == 200);
  CHECK(guard.delay_ms("net0", 1'000) == 0);
}

TEST_CASE("auth guard: one network fails often: a line is logged every 10 s, with the count of failures since the last") {
  AuthGuard guard;
  CHECK(guard.failed("10.0.0.1", "10.0.0.1:5", "bob", 1'000) == "authentication failed: user 'bob' from 10.0.0.1:5");
  for (int i = 0; i < 19'999; ++i) CHECK_FALSE(guard.failed("10.0.0.1", "10.0.0.1:5", "bob", 1'100));
  CHECK(guard.failed("10.0.0.1", "10.0.0.1:6", std::string(70, 'x'), 11'000) ==
        "authentication failed: user '" + std::string(64, 'x') +
            "...' from 10.0.0.1:6 (19999 more failures from this network since the last log line about it)");
}

TEST_CASE("auth guard: 1,000 networks fail in one second: only the lines allowed for a second are logged") {
  AuthGuard guard;
  std::uint32_t lines = 0;
  for (int i = 0; i < 1'000; ++i) lines += guard.failed("net" + std::to_string(i), "a", "u", 5'000) ? 1 : 0;
  CHECK(lines == AuthGuard::kLinesASecond);
  CHECK(guard.failed("net7", "a", "u", 6'000));
}

}  // namespace TEST_FILE
