// Divides Settings::memory_budget, decides what can be charged to it, and which memtables are flushed to make room.
//
//   budget = memtables without charged values + open tables + MemoryAccount + indexes and filters + block cache
//            + the process's overhead
//
// Indexes and filters get the bytes that they need, up to seven eighths of the bytes left for indexes, filters and the block
// cache. A lookup is slowed down more by a missing index or filter than by a missing page. Indexes and filters that do not fit
// are dropped from memory and read again when they are needed.
//
// The overhead is the process's memory beyond the other terms of the sum: freed memory that the allocator keeps, partly used
// pages of the allocator, buffers that are not charged, code. Overhead up to a 64th of the budget, or 4 MiB if that is more, does
// not count. A larger allowance was tried, but bursts then exceeded the bound below: overhead is measured a few tenths of a
// second late, and a burst adds memory meanwhile.
//
// For budgets of 256 MiB and more, the resident size stays below 1.25 times the budget. With a smaller budget, memory of fixed
// size can exceed this bound: the process itself, the free blocks of each thread (server/resp/block_pool.h), and what each loop
// and each transaction may take before a charge.
//
// When memory is short, these steps are taken in this order:
//   1. The block cache and the indexes in memory shrink, down to a floor.
//   2. Large memtables are flushed early (relief).
//   3. The account refuses charges above each kind's floor.
//   4. Writes wait for flushes; in the end, writes that add data are refused (pressure.h).
//
// A charge that does not fit now may fit after a flush of memtables: then room() returns kAfterFlush. The caller waits, and holds
// no charge while it waits.
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

/// Bytes of memtables and open tables at one moment.
struct MemoryUse {
  std::uint64_t memtables = 0;  ///< bytes of all memtables
  std::uint64_t uncharged = 0;  ///< bytes of all memtables, without the values that MemoryAccount has charged
  std::uint64_t kept = 0;    ///< memtables that flushes do not free: active ones that are small (small_memtable_bytes()) or empty
  std::uint64_t frozen = 0;  ///< bytes of memtables that wait to be flushed
  std::uint64_t tables = 0;  ///< bytes of open tables, without their indexes and filters
  std::uint64_t indexes = 0;  ///< bytes of indexes and filters in memory (table/index_cache.h)
};

/// Returns the size in bytes up to which a memtable is not flushed early. Such a flush would free little, since the next memtable
/// allocates a first chunk again, and many small tables need many merges. Small memtables together have at most an eighth of the
/// budget. Pure function.
std::uint64_t small_memtable_bytes(std::uint64_t budget, std::uint64_t empty_memtable_bytes, std::size_t trees);

/// The memory of one tree's memtables.
struct TreeMemory {
  std::uint64_t active_bytes = 0, frozen_bytes = 0;
  bool active_is_empty = false;
  bool frozen_rests = false;  ///< true if the frozen memtables are small and wait to be flushed with a later memtable
};
/// Indexes of trees: trees whose frozen memtables are flushed now, and trees whose active memtable is frozen and flushed, largest
/// first.
struct MemoryRelief {
  std::vector<std::size_t> flush_frozen, freeze_active;
};
/// Chooses memtables to flush if all memtables together exceed `ceiling`. Freezes active memtables until the other active ones
/// together have at most a quarter of `ceiling`. Never freezes active memtables of at most `small` bytes. Pure function.
MemoryRelief plan_relief(std::span<const TreeMemory> trees, std::uint64_t ceiling, std::uint64_t small);

/// Divides the budget. Thread-safe, except that calls of divide() must not overlap, and calls of relief() must not overlap.
class MemoryBudget {
 public:
  struct Env {
    std::shared_ptr<MemoryAccount> account;
    const Clock* clock = nullptr;
    std::uint64_t block_cache = 0;  ///< Settings::block_cache: largest size of the cache; 0 = all memory that other users leave
    std::function<void(std::uint64_t)> set_cache_capacity;
    std::function<void(std::uint64_t)> set_index_capacity{};  ///< limits indexes and filters in memory; null: no limit
    std::function<std::uint64_t()> index_bytes{};             ///< returns the bytes of indexes and filters in memory; null: 0
    std::function<bool()> flushes_fail;
    std::function<std::uint64_t()> cache_bytes;  ///< returns the memory of the cache's blocks, including pinned ones; null: 0
  };
  MemoryBudget(Env env, std::uint64_t bytes) : env_(std::move(env)), bytes_(bytes) {}

  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  /// Sets the budget; takes effect with the next divide().
  void set_bytes(std::uint64_t bytes) { bytes_.store(bytes, std::memory_order_relaxed); }

  /// Sets the limits of account and cache from the current memory of memtables and tables.
  void divide(const MemoryUse& use) EXCLUDES(overhead_mutex_);
  /// After this call the process's overhead counts towards the budget. `resident` returns the bytes of the process that are in
  /// memory.
  void set_resident_source(std::function<std::uint64_t()> resident) EXCLUDES(overhead_mutex_);
  /// Returns the bytes of overhead that count towards the budget, as of the last divide().
  [[nodiscard]] std::uint64_t overhead() const { return overhead_.load(std::memory_order_relaxed); }
  /// Like MemoryAccount::try_charge(), but evicts cached pages to make room.
  [[nodiscard]] bool try_charge(MemoryAccount::Kind kind, std::uint64_t bytes);
  /// Call it after a charge. Shrinks the cache if a 32nd of the budget was charged since the cache was last fitted: large values
  /// arrive faster than divide() is called.
  void note_charged();
  /// Returns whether `bytes` can be charged now, after a flush, or not at all, by the last divide() and the current charges.
  [[nodiscard]] BudgetRoom room(std::uint64_t bytes);
  /// Returns the memtables to flush now. Makes room for the largest charge that was refused since the last call, if that charge
  /// can ever fit.
  [[nodiscard]] MemoryRelief relief(std::span<const TreeMemory> trees, std::uint64_t empty_memtable_bytes);

 private:
  /// The overhead is the second smallest of the last kMeasurements measurements, so that one wrong measurement does not change
  /// it. A measurement is too high if memory was allocated but not charged yet, and too low if memory was freed but is still
  /// charged.
  static constexpr std::size_t kMeasurements = 4;

  void fit_cache();
  [[nodiscard]] std::uint64_t index_bytes() const { return env_.index_bytes ? env_.index_bytes() : 0; }
  void measure_overhead(const MemoryUse& use) EXCLUDES(overhead_mutex_);

  const Env env_;
  std::atomic<std::uint64_t> bytes_;
  // Bytes at the last divide(). fixed_: uncharged memtables, tables and overhead together; tables_: tables alone.
  std::atomic<std::uint64_t> fixed_{0}, tables_{0};
  std::atomic<std::uint64_t> overhead_{0};
  std::atomic<std::uint64_t> flushable_{0};           // uncharged bytes that flushes would free
  std::atomic<std::uint64_t> charged_to_readers_{0};  // bytes charged as kMemTables in values that only readers hold
  std::atomic<std::uint64_t> left_memtables_ns_{0};   // mono_ns() at which charged_to_readers_ last grew
  std::atomic<std::uint64_t> fitted_{0};              // bytes charged when the cache was last fitted

  Mutex overhead_mutex_;
  std::function<std::uint64_t()> resident_ GUARDED_BY(overhead_mutex_);
  std::array<std::uint64_t, kMeasurements> measured_ GUARDED_BY(overhead_mutex_){};  // the last measurement first
  std::uint64_t measured_ns_ GUARDED_BY(overhead_mutex_) = 0;                        // mono_ns() of the last measurement
};

}  // namespace ebbtide
