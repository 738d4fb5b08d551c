// The shares of the limit of open files.
#include <catch2/catch.hpp>

#include <cstdint>

#include "machine/machine.h"

namespace ebbtide {
namespace {

TEST_CASE("limit of open files that suffices serves all clients, and tables get the rest") {
  const FileShares shares = share_files(1'048'576, 10'000);
  CHECK(shares.clients == 10'000);
  CHECK(shares.tables == 1'048'576 - 10'000 - 128);
}

TEST_CASE("small limit of open files leaves clients two thirds of what logs and ports leave") {
  CHECK(share_files(400, 10'000).clients == 200);
  CHECK(share_files(400, 10'000).tables == 100);
  CHECK(share_files(64, 10'000).clients == 32);
  CHECK(share_files(64, 10'000).tables == 16);
}

TEST_CASE("clients and tables get files under any limit, and never more than it") {
  for (std::uint64_t limit = 4; limit < 5000; ++limit) {
    INFO(limit);
    const FileShares shares = share_files(limit, 1000);
    REQUIRE(shares.clients >= 1);
    REQUIRE(shares.tables >= 1);
    REQUIRE(shares.clients + shares.tables < limit);
  }
}

TEST_CASE("file_limit_for gives a limit that serves that many clients") {
  for (const std::uint64_t clients : {1u, 2u, 3u, 31u, 100u, 9'999u, 10'000u, 1'000'000u}) {
    INFO(clients);
    CHECK(share_files(file_limit_for(clients), clients).clients == clients);
  }
}

}  // namespace
}  // namespace ebbtide
