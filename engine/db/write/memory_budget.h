// How Settings::memory_budget is divided, what can be charged to it, and which memtables are flushed to make room.
//
//   budget = memtables without charged values + open tables + MemoryAccount + block cache
//
// When memory is short, in this order:
//   1. The block cache shrinks, down to a floor.
//   2. Large memtables are flushed early (relief).
//   3. The account refuses charges above each kind's floor.
//   4. Writes wait for flushes, and at last those that add data are refused (pressure.h).
//
// A charge that does not fit now may fit after a flush of memtables: room() answers kAfterFlush. The caller then waits without any
// other charge of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <engine/memory_account.h>
#include "base/clock.h"

namespace ebbtide {

/// Bytes that memtables and open tables have at one moment.
struct MemoryUse {
  std::uint64_t memtables = 0;  ///< all memtables
  std::uint64_t uncharged = 0;  ///< the same without the values that MemoryAccount has charged
  std::uint64_t kept = 0;       ///< of active memtables that stay in memory (small_memtable_bytes)
  std::uint64_t frozen = 0;     ///< of memtables that wait to be flushed
  std::uint64_t tables = 0;     ///< filters and fences of open tables
};

/// The largest memtable that is not flushed early: a flush frees none of its first chunk, and many small tables cost merges. All of
/// them together have at most an eighth of the budget. Pure.
std::uint64_t small_memtable_bytes(std::uint64_t budget, std::uint64_t empty_memtable_bytes, std::size_t trees);

/// The memtables of one tree, as far as their memory is concerned.
struct TreeMemory {
  std::uint64_t active_bytes = 0, frozen_bytes = 0;
  bool active_is_empty = false;
  bool frozen_rests = false;  ///< frozen memtables wait for others to be flushed with
};
/// Trees, by their index: those whose resting memtables are flushed now, and those whose active memtable is, the largest first.
struct MemoryRelief {
  std::vector<std::size_t> flush_frozen, freeze_active;
};
/// Chooses memtables to flush, if all of them exceed `ceiling`. Active ones are frozen until they are at a quarter of it; those of at
/// most `small` bytes stay. Pure.
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
  };
  MemoryBudget(Env env, std::uint64_t bytes) : env_(std::move(env)), bytes_(bytes) {}

  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  /// Takes effect with the next divide().
  void set_bytes(std::uint64_t bytes) { bytes_.store(bytes, std::memory_order_relaxed); }

  /// Sets the limits of the account and of the cache from what memtables and tables have now.
  void divide(const MemoryUse& use);
  /// As MemoryAccount::try_charge(). The cache makes room for what was charged.
  [[nodiscard]] bool try_charge(MemoryAccount::Kind kind, std::uint64_t bytes);
  /// Something was charged: the cache shrinks if a thirty-second of the budget was charged since it was last fitted. Large values
  /// come faster than divide() is called.
  void note_charged();
  /// Whether `bytes` can be charged, by the latest divide() and by what is charged now.
  [[nodiscard]] BudgetRoom room(std::uint64_t bytes);
  /// The memtables to flush now. A charge that was refused since the last call counts as used if it can ever fit.
  [[nodiscard]] MemoryRelief relief(std::span<const TreeMemory> trees, std::uint64_t empty_memtable_bytes);

 private:
  void fit_cache();

  const Env env_;
  std::atomic<std::uint64_t> bytes_;
  // As of the last divide().
  std::atomic<std::uint64_t> fixed_{0}, tables_{0};   // uncharged memtables and tables together; tables alone
  std::atomic<std::uint64_t> flushable_{0};           // uncharged bytes that flushes would free
  std::atomic<std::uint64_t> charged_to_readers_{0};  // of kMemTables: values that only readers still hold
  std::atomic<std::uint64_t> left_memtables_ns_{0};   // mono_ns() when charged_to_readers_ last grew
  std::atomic<std::uint64_t> fitted_{0};              // charged when the cache was last fitted
};

}  // namespace ebbtide
