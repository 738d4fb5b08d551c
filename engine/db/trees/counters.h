// Counters for which an increment is one plain store: each thread has its own cache line, and readers add up the lines.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include <engine/workload.h>
#include "table/table_reader.h"

namespace ebbtide {

/// A thread's operations on one database (OperationCounts).
struct alignas(64) DatabaseCounters {
  std::atomic<std::uint64_t> empty_reads{0}, reads{0}, ranges{0}, range_entries{0}, writes{0}, deletes{0}, stamp_deletes{0};
};

struct alignas(64) ThreadCounters {
  /// Counts by database: an array that Counters allocates at the thread's first operation.
  std::atomic<DatabaseCounters*> by_database{nullptr};
  std::atomic<std::uint64_t> gets{0}, get_hits{0}, commits{0}, operations{0}, user_bytes{0}, iterators{0}, fetches{0};
  std::atomic<std::uint64_t> secondary_deletes{0};
  std::atomic<std::uint64_t> pages_read{0}, filter_negatives{0}, filter_false_positives{0};
  /// Counts of gets, by the number of runs whose tables they searched. Element [i] is for gets that searched at most
  /// kProbeBounds[i] runs, and more than kProbeBounds[i - 1]. The last element counts gets that searched more than 32 runs. Gets
  /// that searched no table are not counted.
  static constexpr std::array<std::uint32_t, 10> kProbeBounds = {1, 2, 3, 4, 5, 6, 8, 12, 16, 32};
  std::array<std::atomic<std::uint64_t>, kProbeBounds.size() + 1> probes{};
  std::atomic<std::uint64_t> runs_probed{0};

  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  /// Counts a get that searched the tables of `runs` runs.
  void add_probes(std::uint32_t runs) {
    if (runs == 0) return;
    std::size_t i = runs - 1;
    if (runs > 6) i = runs <= 8 ? 6 : runs <= 12 ? 7 : runs <= 16 ? 8 : runs <= 32 ? 9 : 10;
    add(probes[i], 1);
    add(runs_probed, runs);
  }
  /// Adds the counts of one read to the thread's counters.
  void add(const ReadCounters& reads) {
    if (reads.pages_read != 0) add(pages_read, reads.pages_read);
    if (reads.filter_negatives != 0) add(filter_negatives, reads.filter_negatives);
    if (reads.filter_false_positives != 0) add(filter_false_positives, reads.filter_false_positives);
  }
};

/// The counters of all threads. Threads beyond kSlots share slots and may lose counts; the engine starts far fewer threads.
class Counters {
 public:
  static constexpr std::size_t kSlots = 128;
  /// `databases`: number of databases, which have the numbers 0 to `databases` - 1.
  Counters(DatabaseId databases = 16)  // NOLINT(google-explicit-constructor): a member of an aggregate is made of the number
      : databases_(databases) {}
  ~Counters() {
    for (const ThreadCounters& slot : slots_) delete[] slot.by_database.load(std::memory_order_relaxed);
  }
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  /// Returns the counters of a database in `slot`, which mine() has returned. Index trees of all databases share counters, which
  /// belong to no database's workload.
  DatabaseCounters& of(ThreadCounters& slot, DatabaseId database) {
    DatabaseCounters* all = slot.by_database.load(std::memory_order_acquire);
    if (all == nullptr) [[unlikely]]
      all = make_databases(slot);
    return all[std::min(database, databases_)];
  }
  /// Returns the operations on a database, summed over all threads.
  [[nodiscard]] OperationCounts operations(DatabaseId database) const;
  [[nodiscard]] DatabaseId databases() const { return databases_; }
  ThreadCounters& mine() { return slots_[slot()]; }
  /// Returns the slot of the calling thread, below kSlots.
  static std::size_t slot() {
    thread_local const std::size_t slot = next_.fetch_add(1, std::memory_order_relaxed) % kSlots;
    return slot;
  }
  [[nodiscard]] const std::array<ThreadCounters, kSlots>& slots() const { return slots_; }

 private:
  DatabaseCounters* make_databases(ThreadCounters& slot);

  inline static std::atomic<std::size_t> next_{0};
  const DatabaseId databases_;
  std::array<ThreadCounters, kSlots> slots_;
};

}  // namespace ebbtide
