// Tests of pools of threads.
#include <algorithm>
#include <atomic>
#include <vector>

#include <catch2/catch.hpp>

#include "base/background_pool.h"

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("tasks of both priorities are queued: the thread pool runs those of high priority first, and each task once",
          "[threads]") {
  ManualPool manual;
  std::string order;
  manual.submit(Priority::kLow, [&] { order += 'l'; });
  manual.submit(Priority::kHigh, [&] { order += 'h'; });
  manual.submit(Priority::kLow, [&] { order += 'm'; });
  CHECK(manual.queued() == 3);
  manual.run_all();
  CHECK(order == "hlm");
  CHECK_FALSE(manual.run_one());

  std::atomic<int> ran{0};
  {
    ThreadPool pool(3, "test", 0);
    CHECK(pool.width() == 3);
    for (int i = 0; i < 1000; ++i) pool.submit(i % 2 == 0 ? Priority::kHigh : Priority::kLow, [&] { ++ran; });
    while (ran < 1000) pool.run_one();
  }
  CHECK(ran == 1000);
}

TEST_CASE("task is submitted to a stopped thread pool: it does not run", "[threads]") {
  ThreadPool pool(2, "test", 0);
  std::atomic<int> ran{0};
  pool.submit(Priority::kLow, [&] { ++ran; });
  while (ran < 1) pool.run_one();
  pool.stop();
  pool.submit(Priority::kHigh, [&] { ++ran; });
  CHECK_FALSE(pool.run_one());
  CHECK(ran == 1);
  pool.stop();  // no effect
}

}  // namespace TEST_FILE
