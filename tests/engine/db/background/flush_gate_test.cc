// Tests that flushes share the gate, and that recovery has it alone.
#include "db/background/flush_gate.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <thread>
#include <vector>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("flush holds the gate: another flush may hold it at the same time", "[threads]") {
  FlushGate gate;
  std::atomic<bool> passed{false};
  {
    const FlushGateShared first(gate);
    std::thread second([&] {
      const FlushGateShared shared(gate);
      passed = true;
    });
    second.join();
  }
  CHECK(passed);
}

TEST_CASE("flush holds the gate: recovery waits until the flush has ended", "[threads]") {
  FlushGate gate;
  std::atomic<bool> begun{false}, passed{false};
  std::thread recovery;
  {
    const FlushGateShared flush(gate);
    recovery = std::thread([&] {
      begun = true;
      const FlushGateAlone alone(gate);
      passed = true;
    });
    while (!begun) std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    CHECK_FALSE(passed);
  }
  recovery.join();
  CHECK(passed);
}

TEST_CASE("flushes and recoveries come in any order: no recovery runs beside another job", "[threads]") {
  FlushGate gate;
  std::atomic<int> flushes{0}, recoveries{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, recovers = t == 0] {
      for (int i = 0; i < 200; ++i) {
        if (recovers) {
          const FlushGateAlone alone(gate);
          if (recoveries.fetch_add(1) != 0 || flushes != 0) ++wrong;
          std::this_thread::yield();
          --recoveries;
        } else {
          const FlushGateShared shared(gate);
          ++flushes;
          if (recoveries != 0) ++wrong;
          std::this_thread::yield();
          --flushes;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace TEST_FILE
