// Whom a sync waits for, how long, and when it stops waiting.
#include "db/sync_gather.h"

#include <catch2/catch.hpp>

using namespace ebbtide;

namespace {
constexpr std::uint64_t kMs = 1'000'000;
}  // namespace

TEST_CASE("a sync waits for as many operations as the last one had and left, for at most a quarter of its time") {
  SyncGather gather;
  CHECK(gather.wanted() == 0);  // nothing is known yet
  gather.synced(25, 25, 4 * kMs);
  CHECK(gather.wanted() == 50);
  CHECK(gather.limit_ns() == 1 * kMs);
  gather.synced(50, 0, 400 * kMs);
  CHECK(gather.wanted() == 50);
  CHECK(gather.limit_ns() == SyncGather::kLongestNs);  // a hiccup of the disk holds nobody up for long
}

TEST_CASE("a single client does not wait") {
  SyncGather gather;
  gather.synced(1, 0, 4 * kMs);
  CHECK(gather.wanted() <= 1);
}

TEST_CASE("without a measured sync time there is no wait") {
  SyncGather gather;
  gather.synced(25, 25, 3);
  CHECK(gather.wanted() == 0);
}

TEST_CASE("a wait that brings a quarter of the group counts as successful") {
  SyncGather gather;
  gather.synced(25, 25, 4 * kMs);
  gather.gathered(25, 34);
  gather.synced(34, 16, 4 * kMs);
  CHECK(gather.wanted() == 50);
}

TEST_CASE("unsuccessful waits become rarer, and frequent again after a success") {
  SyncGather gather;
  const auto syncs_until_next_try = [&] {
    int n = 0;
    do {
      gather.synced(10, 10, 4 * kMs);
      ++n;
    } while (gather.wanted() == 0);
    return n;
  };
  CHECK(syncs_until_next_try() == 1);
  for (const int expected : {2, 4, 8, 16, 32, 64, 64}) {
    gather.gathered(10, 12);
    CHECK(syncs_until_next_try() == expected);
  }
  gather.gathered(10, 20);
  CHECK(syncs_until_next_try() == 1);
}
