// Allocates small blocks of memory that never move. The arena's destructor frees all of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace ebbtide {

/// allocate() is thread-safe: it advances a position in the current block without a lock, and takes a lock only to begin a new
/// block.
class Arena {
 public:
  /// The first block has 4 KiB. Each later block is as large as all blocks before it together, up to `block_bytes`, so that a
  /// small arena takes little memory. Blocks of 2 MiB and more ask the system for huge pages.
  explicit Arena(std::size_t block_bytes = std::size_t{2} << 20);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Returns `bytes` bytes of memory, aligned to 8. Throws std::bad_alloc if there is no memory. If the current block has no
  /// room, a request for more than a quarter of a new block gets a block of its own.
  char* allocate(std::size_t bytes);
  /// Returns the bytes that this arena has taken from the system or the allocator.
  [[nodiscard]] std::size_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Block;
  char* allocate_slow(std::size_t bytes);
  [[nodiscard]] std::size_t next_block_bytes() const;
  const std::size_t block_bytes_;  ///< size of the largest blocks
  std::atomic<Block*> current_{nullptr};
  std::atomic<std::size_t> memory_bytes_{0};
  Mutex mutex_;
  std::vector<Block*> blocks_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
