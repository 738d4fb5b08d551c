// Memory for many small allocations, which any thread frees all at once.
//
// Large blocks come from the system, not from the allocator. The allocator returns pages on the thread that allocated them, all
// at once, at that thread's next allocation. After a transaction of 200 MB this kept an event loop busy for up to a quarter of a
// second, although another thread had freed the memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "resp/args.h"

namespace ebbtide {

/// Not thread-safe, but any thread may destroy it.
class GatheredMemory {
 public:
  /// The size of the first block. Each later block is twice as large as the block before, up to kMostBlockBytes.
  static constexpr std::size_t kFirstBlockBytes = 1 << 10;
  static constexpr std::size_t kMostBlockBytes = std::size_t{2} << 20;
  /// Blocks of at least this many bytes come from the system.
  static constexpr std::size_t kSystemBytes = std::size_t{256} << 10;

  GatheredMemory() = default;
  ~GatheredMemory() { release(); }
  GatheredMemory(const GatheredMemory&) = delete;
  GatheredMemory& operator=(const GatheredMemory&) = delete;
  GatheredMemory(GatheredMemory&& other) noexcept;
  GatheredMemory& operator=(GatheredMemory&& other) noexcept;

  /// Returns `bytes` of memory aligned to 8, valid until release(). Throws std::bad_alloc.
  void* allocate(std::size_t bytes);
  /// Returns a copy of the bytes, valid until release().
  Bytes copy(Bytes bytes) {
    if (bytes.empty()) return {};
    char* const place = static_cast<char*>(allocate(bytes.size()));
    std::memcpy(place, bytes.data(), bytes.size());
    return {place, bytes.size()};
  }
  /// Returns the bytes taken from the allocator and the system; system_bytes(): only those from the system.
  [[nodiscard]] std::size_t memory_bytes() const { return memory_bytes_; }
  [[nodiscard]] std::size_t system_bytes() const { return system_bytes_; }
  void release();

 private:
  struct Block {
    char* memory;
    std::size_t bytes;
  };
  char* add_block(std::size_t bytes);

  std::vector<Block> blocks_;
  char* at_ = nullptr;
  std::size_t left_ = 0, next_bytes_ = kFirstBlockBytes, memory_bytes_ = 0, system_bytes_ = 0;
};

}  // namespace ebbtide
