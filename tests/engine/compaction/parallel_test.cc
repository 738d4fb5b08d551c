// Tests of parts that run on several threads.
#include <atomic>
#include <vector>

#include <catch2/catch.hpp>

#include "base/background_pool.h"
#include "compaction/parallel.h"

namespace ebbtide {
namespace TEST_FILE {

TEST_CASE("pool is null, runs no tasks or is shut down: each part of the work runs exactly once") {
  std::vector<std::atomic<int>> ran(50);
  const auto part = [&](std::size_t i) { ++ran[i]; };
  run_parts(nullptr, ran.size(), part);
  ManualPool manual;  // runs no task before run_all()
  run_parts(&manual, ran.size(), part);
  {
    ThreadPool pool(3, "test", 0);
    run_parts(&pool, ran.size(), part);
    run_parts(&pool, 0, part);
  }
  for (const auto& n : ran) REQUIRE(n == 3);
  manual.run_all();  // the queued tasks find no part left
  for (const auto& n : ran) REQUIRE(n == 3);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
