#include "base/backoff.h"

#include <catch2/catch.hpp>

namespace ebbtide {
namespace TEST_FILE {

constexpr std::uint64_t kSecond = 1'000'000'000;

TEST_CASE("work fails again and again: each wait is twice the last, up to 4 s, until a success") {
  const Status full = Status::no_space("");
  Backoff backoff;
  CHECK_FALSE(backoff.rests(0));
  for (const std::uint64_t seconds : {1, 2, 4, 4}) {
    backoff.note(full, kSecond);
    backoff.note(Status::aborted(""), kSecond);
    CHECK(backoff.failed());
    CHECK(backoff.rests(kSecond));
    CHECK(backoff.rests(kSecond + seconds * kSecond - 1));
    CHECK_FALSE(backoff.rests(kSecond + seconds * kSecond));
  }
  backoff.note(Status::ok(), kSecond);
  CHECK_FALSE(backoff.failed());
  CHECK_FALSE(backoff.rests(kSecond));
  backoff.note(full, kSecond);
  CHECK_FALSE(backoff.rests(2 * kSecond));
}

}  // namespace TEST_FILE
}  // namespace ebbtide
