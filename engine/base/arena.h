// Memory that is handed out in small pieces and freed all at once. Pieces never move.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace ebbtide {

/// allocate() is thread-safe: a bump of the current block, which is lock-free, and a lock only to begin a new block.
class Arena {
 public:
  /// Blocks are of `block_bytes`; from 2 MiB on they ask the system for huge pages.
  explicit Arena(std::size_t block_bytes = std::size_t{2} << 20);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// `bytes` aligned to 8. Larger than a block gets a block of its own.
  char* allocate(std::size_t bytes);
  /// Bytes taken from the system.
  [[nodiscard]] std::size_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Block;
  char* allocate_slow(std::size_t bytes);
  const std::size_t block_bytes_;
  std::atomic<Block*> current_{nullptr};
  std::atomic<std::size_t> memory_bytes_{0};
  Mutex mutex_;
  std::vector<Block*> blocks_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
