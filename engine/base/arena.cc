#include "base/arena.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "base/invariant.h"
#include "base/system_memory.h"

namespace ebbtide {
namespace {
constexpr std::size_t kFirstBlock = 4096;
constexpr std::size_t kPage = 4096, kAlignment = 64;
// Blocks of at least this many bytes come from the system, not from the allocator. So their memory returns to the system at
// once when any thread frees the arena. The allocator would return the memory only on the thread that allocated it. While that
// thread is idle, the allocator would keep the memory of flushed memtables, which the budget counts as free.
constexpr std::size_t kSystemBytes = std::size_t{256} << 10;
}  // namespace

struct Arena::Block {
  std::atomic<std::size_t> used{0};
  std::size_t capacity = 0;  // number of usable bytes after this header
  char* data() { return reinterpret_cast<char*>(this + 1); }
};

Arena::Arena(std::size_t block_bytes) : block_bytes_(std::max(block_bytes, kFirstBlock)) {}

Arena::~Arena() {
  for (Block* block : blocks_) {
    const std::size_t bytes = block->capacity + sizeof(Block);
    block->~Block();
    if (bytes >= kSystemBytes) {
      unmap_memory(block, bytes);
    } else {
      std::free(block);
    }
  }
}

char* Arena::allocate(std::size_t bytes) {
  bytes = (bytes + 7) & ~std::size_t{7};
  Block* block = current_.load(std::memory_order_acquire);
  if (block != nullptr && bytes <= block->capacity) {
    const std::size_t at = block->used.fetch_add(bytes, std::memory_order_relaxed);
    if (at + bytes <= block->capacity) return block->data() + at;
  }
  return allocate_slow(bytes);
}

// Sizes are powers of two, so that blocks of 2 MiB are whole huge pages.
std::size_t Arena::next_block_bytes() const {
  return std::min(block_bytes_, std::max(kFirstBlock, std::bit_floor(memory_bytes_.load(std::memory_order_relaxed))));
}

char* Arena::allocate_slow(std::size_t bytes) {
  MutexLock lock(mutex_);
  const std::size_t block_bytes = next_block_bytes();
  const std::size_t usable = block_bytes - sizeof(Block);
  const bool own_block = bytes > usable / 4;  // a large request must not waste the free part of the current block
  if (!own_block) {
    // While this thread waited for the mutex, another thread may have begun a block.
    Block* block = current_.load(std::memory_order_acquire);
    if (block != nullptr) {
      const std::size_t at = block->used.fetch_add(bytes, std::memory_order_relaxed);
      if (at + bytes <= block->capacity) return block->data() + at;
    }
  }
  const std::size_t total = own_block ? bytes + sizeof(Block) : block_bytes;
  const std::size_t unit = total >= kHugePageBytes ? kHugePageBytes : total >= kSystemBytes ? kPage : kAlignment;
  const std::size_t rounded = (total + unit - 1) / unit * unit;
  void* const memory = rounded >= kSystemBytes ? map_memory(rounded) : std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  auto* block = new (memory) Block;
  block->capacity = rounded - sizeof(Block);
  block->used.store(bytes, std::memory_order_relaxed);
  blocks_.push_back(block);
  memory_bytes_.fetch_add(rounded, std::memory_order_relaxed);
  if (!own_block) current_.store(block, std::memory_order_release);
  return block->data();
}

}  // namespace ebbtide
