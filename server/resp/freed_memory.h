// Returns memory to the system that other threads have freed.
//
// The allocator returns memory to the system only on the thread that allocated it. So a thread that allocates much first collects
// its own memory that others have freed, and makes the other threads collect theirs. Otherwise freed and new memory would both
// count. For example, the thread that needs room evicts pages of the cache that other threads have allocated.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace ebbtide {

/// The functions that collect freed memory; null: none. Set once, before any command runs.
struct FreedMemoryCollectors {
  void (*own)() = nullptr;       ///< collects the calling thread's memory that other threads have freed
  std::function<void()> others;  ///< makes other threads collect theirs soon; thread-safe
};
inline FreedMemoryCollectors freed_memory_collectors;

/// A thread calls this before it allocates `bytes`. Collects the thread's freed memory once per mebibyte: a collection takes 10
/// us or more, and filling a mebibyte takes longer. Other threads collect once per 16 MiB of all threads.
inline void collect_freed_before(std::uint64_t bytes) {
  constexpr std::uint64_t kStep = std::uint64_t{1} << 20, kStepOfAll = std::uint64_t{16} << 20;
  static thread_local std::uint64_t allocated = 0;
  static std::atomic<std::uint64_t> allocated_by_all{0};
  if ((allocated += bytes) < kStep) return;
  const std::uint64_t before = allocated_by_all.fetch_add(allocated, std::memory_order_relaxed);
  const bool enough_by_all = before / kStepOfAll != (before + allocated) / kStepOfAll;
  allocated = 0;
  if (freed_memory_collectors.own != nullptr) freed_memory_collectors.own();
  if (enough_by_all && freed_memory_collectors.others) freed_memory_collectors.others();
}

}  // namespace ebbtide
