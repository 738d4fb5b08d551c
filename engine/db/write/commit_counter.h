// Counts commits, and measures the memory whenever a thread has committed bytes for 1 / kMeasuredPart of the budget.
//
// Each tick of the database measures the memory, too. But ticks come late while the log thread waits for a sync, and memtables
// that are written meanwhile could exceed the budget.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <utility>

#include <engine/write_batch.h>
#include "base/clock.h"
#include "db/trees/counters.h"
#include "db/write/memory_budget.h"
#include "db/write/write_controller.h"

namespace ebbtide {

/// The counter of all commits. Thread-safe.
class CommitCounter {
 public:
  /// A thread measures the memory after it has committed 1 / kMeasuredPart of the budget.
  static constexpr std::uint64_t kMeasuredPart = 64;
  /// A tick is late if it comes more than this time after the previous tick: two tick intervals.
  static constexpr std::uint64_t kLateTickNs = 200'000'000;

  struct Env {
    const Clock* clock = nullptr;
    Counters* counters = nullptr;
    const MemoryBudget* budget = nullptr;
    WriteController* writes = nullptr;
    std::function<void()> relieve;  ///< flushes memtables if they use too much memory (memtable_relief.h)
  };

  explicit CommitCounter(Env env) : env_(std::move(env)) {}

  /// Counts a committed batch. The caller holds no lock.
  void count(const WriteBatch& batch) {
    ThreadCounters& mine = env_.counters->mine();
    ThreadCounters::add(mine.commits, 1);
    ThreadCounters::add(mine.operations, batch.count());
    batch.each_written([&](const WriteBatch::Written& written) {
      DatabaseCounters& counters = env_.counters->of(mine, written.database);
      ThreadCounters::add(counters.writes, written.operations);
      if (written.deletes != 0) ThreadCounters::add(counters.deletes, written.deletes);
      if (written.stamp_deletes != 0) ThreadCounters::add(counters.stamp_deletes, written.stamp_deletes);
    });
    if (batch.secondary_deletes() != 0) ThreadCounters::add(mine.secondary_deletes, batch.secondary_deletes());
    const std::uint64_t before = mine.user_bytes.load(std::memory_order_relaxed);
    ThreadCounters::add(mine.user_bytes, batch.payload_bytes() - WriteBatch::kHeaderBytes);
    // Measures when user_bytes passes a multiple of 1 << step: a power of two, since a shift is faster than a division.
    const int step = std::bit_width(env_.budget->bytes() / kMeasuredPart);
    if (before >> step != mine.user_bytes.load(std::memory_order_relaxed) >> step) [[unlikely]]
      measure_memory();
  }
  /// Stores the time of a tick of the database. A tick measures the memory, so commits measure it only if ticks are late.
  void note_tick() { ticked_ns_.store(env_.clock->mono_ns(), std::memory_order_relaxed); }

 private:
  void measure_memory();

  const Env env_;
  std::atomic<std::uint64_t> ticked_ns_{0};  // mono_ns() of the last tick; 0: none yet
};

}  // namespace ebbtide
