// Memory that other threads have freed.
//
// The allocator returns memory to the system on the thread that allocated it. So a thread that allocates much at once first
// collects what other threads have freed of its memory, and has the other threads collect theirs: otherwise both would be in
// memory. Pages of the cache, for example, are evicted by the thread that needs room, but were allocated by any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace ebbtide {

/// The functions that collect freed memory; null: none. Set once, before any command runs.
struct FreedMemoryCollectors {
  void (*own)() = nullptr;       ///< collects the freed memory of the calling thread
  std::function<void()> others;  ///< has other threads collect theirs soon; thread-safe
};
inline FreedMemoryCollectors freed_memory_collectors;

/// Called by a thread that is about to allocate `bytes`. Collects the thread's freed memory once per mebibyte, since a collection
/// takes 10 us or more, and a mebibyte takes longer to fill. Other threads collect once per 16 MiB of all threads.
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
