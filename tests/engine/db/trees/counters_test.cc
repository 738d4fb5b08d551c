// Tests that operations are counted by thread and database.
#include "db/trees/counters.h"

#include <catch2/catch.hpp>

#include <memory>
#include <thread>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("several threads count operations: operations() returns the sums of each database", "[threads]") {
  const auto counters = std::make_unique<Counters>(3);
  const auto count = [&] {
    ThreadCounters& mine = counters->mine();
    for (int i = 0; i < 1000; ++i) {
      DatabaseCounters& database = counters->of(mine, static_cast<DatabaseId>(i % 2));
      ThreadCounters::add(database.empty_reads, 1);
      ThreadCounters::add(database.reads, 2);
      ThreadCounters::add(database.ranges, 3);
      ThreadCounters::add(database.range_entries, 4);
      ThreadCounters::add(database.writes, 5);
    }
  };
  std::thread other(count);
  count();
  other.join();
  for (const DatabaseId database : {0, 1})
    CHECK(counters->operations(database) ==
          OperationCounts{.empty_reads = 1000, .reads = 2000, .ranges = 3000, .writes = 5000, .range_entries = 4000});
  CHECK(counters->operations(2) == OperationCounts());
}

TEST_CASE("no operation was counted yet: operations() returns zeros") {
  const auto counters = std::make_unique<Counters>(1);
  CHECK(counters->operations(0) == OperationCounts());
  CHECK(counts_since(OperationCounts{}, {.reads = 5}) == OperationCounts());
}

}  // namespace TEST_FILE
