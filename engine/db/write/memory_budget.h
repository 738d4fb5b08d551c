// Divides Settings::memory_budget, decides what can be charged to it, and which memtables are flushed to make room.
//
//   budget = memtables without charged values + open tables + MemoryAccount + block cache + the process's overhead
//
// The overhead is what the process has in memory beyond that: freed memory that the allocator keeps, partly used pages of it, buffers that
// are not charged, code. Up to a sixteenth of the budget is free of charge.
//
// The resident size stays below 1.25 times the budget for budgets of 256 MiB and more. A smaller budget does not hold what is constant: the
// process itself, the free blocks of each thread (server/resp/block_pool.h), and what each loop and each transaction may take before a charge.
//
// When memory is short, in this order:
//   1. The block cache shrinks, down to a floor.
//   2. Large memtables are flushed early (relief).
//   3. The account refuses charges above each kind's floor.
//   4. Writes wait for flushes, and at last those that add data are refused (pressure.h).
//
// A charge that does not fit now may fit after a flush of memtables: room() returns kAfterFlush. The caller then waits, and holds
// no charge meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <engine/memory_account.h>
#include "base/clock.h"
#include "base/mutex.h"

namespace ebbtide {

/// Bytes that memtables and open tables have at one moment.
struct MemoryUse {
  std::uint64_t memtables = 0;  ///< all memtables
  std::uint64_t uncharged = 0;  ///< the same without the values that MemoryAccount has charged
  std::uint64_t kept = 0;       ///< of active memtables that stay in memory (small_memtable_bytes)
  std::uint64_t frozen = 0;     ///< of memtables that wait to be flushed
  std::uint64_t tables = 0;     ///< filters and fences of open tables
};

/// The size up to which a memtable is not flushed early: a flush would not free its first chunk, and many small tables cost
/// merges. All small memtables together have at most an eighth of the budget. Pure.
std::uint64_t small_memtable_bytes(std::uint64_t budget, std::uint64_t empty_memtable_bytes, std::size_t trees);

/// The memory of one tree's memtables.
struct TreeMemory {
  std::uint64_t active_bytes = 0, frozen_bytes = 0;
  bool active_is_empty = false;
  bool frozen_rests = false;  ///< frozen memtables wait for the next flush
};
/// Indexes of trees: those whose frozen memtables are flushed now, and those whose active memtable is frozen and flushed, largest
/// first.
struct MemoryRelief {
  std::vector<std::size_t> flush_frozen, freeze_active;
};
/// Chooses memtables to flush if all together exceed `ceiling`. Freezes active ones until the rest has a quarter of it; those of
/// at most `small` bytes stay. Pure.
MemoryRelief plan_relief(std::span<const TreeMemory> trees, std::uint64_t ceiling, std::uint64_t small);

/// Thread-safe, but divide() and relief() have one caller at a time each.
class MemoryBudget {
 public:
  struct Env {
    std::shared_ptr<MemoryAccount> account;
    const Clock* clock = nullptr;
    std::uint64_t block_cache = 0;  ///< Settings::block_cache: the most that the cache gets; 0 = all that is left
    std::function<void(std::uint64_t)> set_cache_capacity;
    std::function<bool()> flushes_fail;
    std::function<std::uint64_t()> cache_bytes;  ///< memory of the cache's blocks, pinned ones included; null: 0
  };
  MemoryBudget(Env env, std::uint64_t bytes) : env_(std::move(env)), bytes_(bytes) {}

  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  /// Takes effect with the next divide().
  void set_bytes(std::uint64_t bytes) { bytes_.store(bytes, std::memory_order_relaxed); }

  /// Sets the limits of account and cache from the current memory of memtables and tables.
  void divide(const MemoryUse& use) EXCLUDES(overhead_mutex_);
  /// From now on the budget pays for the process's overhead. `resident` returns how many bytes of the process are in memory.
  void set_resident_source(std::function<std::uint64_t()> resident) EXCLUDES(overhead_mutex_);
  /// Bytes of overhead that are charged, as of the last divide().
  [[nodiscard]] std::uint64_t overhead() const { return overhead_.load(std::memory_order_relaxed); }
  /// Like MemoryAccount::try_charge(); the cache makes room for the charge.
  [[nodiscard]] bool try_charge(MemoryAccount::Kind kind, std::uint64_t bytes);
  /// Call it after a charge: the cache shrinks if a 32nd of the budget was charged since its last fit. Large values arrive faster
  /// than divide() is called.
  void note_charged();
  /// Returns whether `bytes` can be charged, by the latest divide() and the current charges.
  [[nodiscard]] BudgetRoom room(std::uint64_t bytes);
  /// The memtables to flush now. A charge that was refused since the last call counts as used if it can ever fit.
  [[nodiscard]] MemoryRelief relief(std::span<const TreeMemory> trees, std::uint64_t empty_memtable_bytes);

 private:
  /// The second smallest of so many latest measurements counts. So neither memory of a moment nor a single low measurement changes
  /// the overhead: memory that was just taken may not be charged yet, and memory that was just freed may still be charged.
  static constexpr std::size_t kMeasurements = 4;

  void fit_cache();
  void measure_overhead(const MemoryUse& use) EXCLUDES(overhead_mutex_);

  const Env env_;
  std::atomic<std::uint64_t> bytes_;
  // From the last divide().
  std::atomic<std::uint64_t> fixed_{0}, tables_{0};  // uncharged memtables, tables and overhead together; tables alone
  std::atomic<std::uint64_t> overhead_{0};
  std::atomic<std::uint64_t> flushable_{0};           // uncharged bytes that flushes would free
  std::atomic<std::uint64_t> charged_to_readers_{0};  // part of kMemTables in values that only readers hold
  std::atomic<std::uint64_t> left_memtables_ns_{0};   // mono_ns() when charged_to_readers_ last grew
  std::atomic<std::uint64_t> fitted_{0};              // charged when the cache was last fitted

  Mutex overhead_mutex_;
  std::function<std::uint64_t()> resident_ GUARDED_BY(overhead_mutex_);
  std::array<std::uint64_t, kMeasurements> measured_ GUARDED_BY(overhead_mutex_){};  // the latest first
  std::uint64_t measured_ns_ GUARDED_BY(overhead_mutex_) = 0;                        // mono_ns() of the latest
};

}  // namespace ebbtide
