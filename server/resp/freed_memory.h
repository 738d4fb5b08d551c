// Memory that other threads have freed.
//
// The allocator returns memory to the system on the thread that allocated it. So a thread that allocates much at once first
// collects what other threads have freed meanwhile: otherwise both would be in memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace ebbtide {

/// The function that collects freed memory of the calling thread; null: none. Set once, before the threads start.
inline std::atomic<void (*)()> freed_memory_collector{nullptr};

/// Called by a thread that is about to allocate `bytes`. Collects the thread's freed memory once per mebibyte, since a collection
/// takes 10 us or more, and a mebibyte takes longer to fill.
inline void collect_freed_before(std::uint64_t bytes) {
  constexpr std::uint64_t kStep = std::uint64_t{1} << 20;
  static thread_local std::uint64_t allocated = 0;
  if ((allocated += bytes) < kStep) return;
  allocated = 0;
  if (auto* const collect = freed_memory_collector.load(std::memory_order_relaxed); collect != nullptr) collect();
}

}  // namespace ebbtide
