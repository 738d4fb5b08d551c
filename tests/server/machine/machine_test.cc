// Tests of the parts of the limit of open files.
#include <catch2/catch.hpp>

#include <cstdint>

#include "machine/machine.h"

namespace ebbtide {
namespace TEST_FILE {

TEST_CASE("limit of open files is large enough for all clients: tables get the remaining files") {
  const FileShares shares = share_files(1'048'576, 10'000);
  CHECK(shares.clients == 10'000);
  CHECK(shares.tables == 1'048'576 - 10'000 - 128);
}

TEST_CASE("limit of open files is small: clients get two thirds of the files that logs and ports do not need") {
  CHECK(share_files(400, 10'000).clients == 200);
  CHECK(share_files(400, 10'000).tables == 100);
  CHECK(share_files(64, 10'000).clients == 32);
  CHECK(share_files(64, 10'000).tables == 16);
}

TEST_CASE("limit of open files has any value: clients and tables get some files, and together at most the limit") {
  for (std::uint64_t limit = 4; limit < 5000; ++limit) {
    INFO(limit);
    const FileShares shares = share_files(limit, 1000);
    REQUIRE(shares.clients >= 1);
    REQUIRE(shares.tables >= 1);
    REQUIRE(shares.clients + shares.tables < limit);
  }
}

TEST_CASE("clients are many or few: the computed limit of open files gives a file to each of them") {
  for (const std::uint64_t clients : {1u, 2u, 3u, 31u, 100u, 9'999u, 10'000u, 1'000'000u}) {
    INFO(clients);
    CHECK(share_files(file_limit_for(clients), clients).clients == clients);
  }
}

TEST_CASE("machine has one or two cores: the server runs one event loop and one merge thread") {
  for (const unsigned cores : {1u, 2u}) {
    CHECK(event_loops_for(cores) == 1);
    CHECK(merge_threads_for(cores) == 1);
  }
}

TEST_CASE("machine has many cores: half as many event loops, and a quarter as many merge threads") {
  CHECK(event_loops_for(3) == 1);
  CHECK(event_loops_for(16) == 8);
  CHECK(event_loops_for(64) == 16);
  CHECK(merge_threads_for(7) == 1);
  CHECK(merge_threads_for(8) == 2);
  CHECK(merge_threads_for(64) == 16);
  CHECK(merge_threads_for(4096) == 256);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
