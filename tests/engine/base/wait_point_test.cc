#include "base/wait_point.h"

#include <atomic>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("condition holds already: wait_until() returns without sleeping", "[wait]") {
  WaitPoint point;
  int looks = 0;
  point.wait_until([&] { return ++looks == 3; });
  CHECK(looks == 3);
  CHECK(point.sleepers() == 0);
}

TEST_CASE("thread sleeps: it wakes when its condition is published, not before", "[wait][threads]") {
  WaitPoint point;
  std::atomic<int> stage{0};
  std::atomic<bool> woke{false};
  std::thread waiter([&] {
    point.wait_until([&] { return stage.load() == 2; });
    woke = true;
  });
  while (point.sleepers() == 0) std::this_thread::yield();
  stage = 1;  // publishes another condition
  point.notify();
  CHECK_FALSE(woke);
  stage = 2;
  point.notify();
  waiter.join();
  CHECK(woke);
  CHECK(point.sleepers() == 0);
}

// Each thread waits for its turn and publishes the next turn, as commits do. A lost wake-up would hang the test.
TEST_CASE("many more threads than cores publish in turn: no wake-up is lost", "[wait][threads]") {
  constexpr std::uint64_t kThreads = 12, kTurns = 2000;
  WaitPoint point;
  std::atomic<std::uint64_t> turn{0};
  std::uint64_t plain = 0;  // if turns overlapped, the thread sanitizer would report a race here
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = t; i < kThreads * kTurns; i += kThreads) {
        point.wait_until([&] { return turn.load(std::memory_order_seq_cst) == i; });
        plain += 1;
        turn.store(i + 1, std::memory_order_seq_cst);
        point.notify();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(plain == kThreads * kTurns);
  CHECK(point.sleepers() == 0);
}

}  // namespace TEST_FILE
