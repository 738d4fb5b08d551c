// Tests of how many operations a sync waits for, how long, and when it stops waiting.
#include "wal/commit_delay.h"

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kMs = 1'000'000;

TEST_CASE(
    "sync has ended: the next one waits for as many operations as were synced or queued, up to a quarter of a sync's "
    "time") {
  CommitDelay delay;
  CHECK(delay.wanted() == 0);  // nothing is known yet
  delay.synced(25, 25, 4 * kMs);
  CHECK(delay.wanted() == 50);
  CHECK(delay.limit_ns() == 1 * kMs);
  delay.synced(50, 0, 400 * kMs);
  CHECK(delay.wanted() == 50);
  CHECK(delay.limit_ns() == CommitDelay::kLongestNs);  // one slow sync does not make clients wait long
}

TEST_CASE("only one client writes: its syncs are not delayed") {
  CommitDelay delay;
  delay.synced(1, 0, 4 * kMs);
  CHECK(delay.wanted() <= 1);
}

TEST_CASE("last sync took no time: the next sync is not delayed") {
  CommitDelay delay;
  delay.synced(25, 25, 3);
  CHECK(delay.wanted() == 0);
}

TEST_CASE("sync was delayed, and a quarter more operations came: the next sync is also delayed") {
  CommitDelay delay;
  delay.synced(25, 25, 4 * kMs);
  delay.waited(25, 34);
  delay.synced(34, 16, 4 * kMs);
  CHECK(delay.wanted() == 50);
}

TEST_CASE("delays bring no more operations: syncs are delayed more and more rarely, until a delay pays again") {
  CommitDelay delay;
  const auto syncs_until_next_try = [&] {
    int n = 0;
    do {
      delay.synced(10, 10, 4 * kMs);
      ++n;
    } while (delay.wanted() == 0);
    return n;
  };
  CHECK(syncs_until_next_try() == 1);
  for (const int expected : {2, 4, 8, 16, 32, 64, 64}) {
    delay.waited(10, 12);
    CHECK(syncs_until_next_try() == expected);
  }
  delay.waited(10, 20);
  CHECK(syncs_until_next_try() == 1);
}

}  // namespace TEST_FILE
