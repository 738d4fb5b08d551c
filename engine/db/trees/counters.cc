#include "db/trees/counters.h"

#include <memory>

namespace ebbtide {

DatabaseCounters* Counters::make_databases(ThreadCounters& slot) {
  auto fresh = std::make_unique<DatabaseCounters[]>(databases_ + 1);
  DatabaseCounters* other = nullptr;  // the array of another thread that shares the slot
  if (!slot.by_database.compare_exchange_strong(other, fresh.get(), std::memory_order_acq_rel, std::memory_order_acquire))
    return other;
  return fresh.release();
}

OperationCounts Counters::operations(DatabaseId database) const {
  OperationCounts sum;
  for (const ThreadCounters& slot : slots_) {
    const DatabaseCounters* const all = slot.by_database.load(std::memory_order_acquire);
    if (all == nullptr) continue;
    const DatabaseCounters& c = all[database];
    sum += {.empty_reads = c.empty_reads.load(std::memory_order_relaxed),
            .reads = c.reads.load(std::memory_order_relaxed),
            .ranges = c.ranges.load(std::memory_order_relaxed),
            .writes = c.writes.load(std::memory_order_relaxed),
            .range_entries = c.range_entries.load(std::memory_order_relaxed),
            .deletes = c.deletes.load(std::memory_order_relaxed),
            .stamp_deletes = c.stamp_deletes.load(std::memory_order_relaxed)};
  }
  return sum;
}

}  // namespace ebbtide
