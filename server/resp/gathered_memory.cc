#include "resp/gathered_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

namespace ebbtide {
namespace {

constexpr std::size_t kPage = 4096;

/// Returns memory from the system. If its size is kMostBlockBytes, it is aligned to that size, so that it can be one huge page.
char* map(std::size_t bytes) {
  const std::size_t spare = bytes == GatheredMemory::kMostBlockBytes ? bytes : 0;
  void* const mapped = ::mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  char* const begin = static_cast<char*>(mapped);
  if (spare == 0) return begin;
  const std::size_t before = (bytes - reinterpret_cast<std::uintptr_t>(begin) % bytes) % bytes;
  if (before != 0) ::munmap(begin, before);
  if (before != spare) ::munmap(begin + before + bytes, spare - before);
  ::madvise(begin + before, bytes, MADV_HUGEPAGE);
  return begin + before;
}

}  // namespace

GatheredMemory::GatheredMemory(GatheredMemory&& other) noexcept { *this = std::move(other); }

GatheredMemory& GatheredMemory::operator=(GatheredMemory&& other) noexcept {
  if (this == &other) return *this;
  release();
  blocks_ = std::exchange(other.blocks_, {});
  at_ = std::exchange(other.at_, nullptr);
  left_ = std::exchange(other.left_, 0);
  next_bytes_ = std::exchange(other.next_bytes_, kFirstBlockBytes);
  memory_bytes_ = std::exchange(other.memory_bytes_, 0);
  system_bytes_ = std::exchange(other.system_bytes_, 0);
  return *this;
}

void* GatheredMemory::allocate(std::size_t bytes) {
  bytes = (bytes + 7) & ~std::size_t{7};
  if (bytes > left_) {
    const std::size_t block = std::exchange(next_bytes_, std::min(kMostBlockBytes, next_bytes_ * 2));
    // A large allocation gets a block of its own, so that the rest of the current block stays usable.
    if (bytes > block / 4) return add_block(bytes);
    at_ = add_block(block);
    left_ = block;
  }
  left_ -= bytes;
  return std::exchange(at_, at_ + bytes);
}

char* GatheredMemory::add_block(std::size_t bytes) {
  const bool from_system = bytes >= kSystemBytes;
  if (from_system) bytes = (bytes + kPage - 1) / kPage * kPage;
  blocks_.reserve(blocks_.size() + 1 > blocks_.capacity() ? 2 * blocks_.size() + 4
                                                          : 0);  // reserved before the allocation, which would leak if this threw
  char* const memory = from_system ? map(bytes) : static_cast<char*>(::operator new(bytes));
  blocks_.push_back({memory, bytes});
  memory_bytes_ += bytes;
  system_bytes_ += from_system ? bytes : 0;
  return memory;
}

void GatheredMemory::release() {
  for (const Block& block : blocks_) {
    if (block.bytes >= kSystemBytes) {
      ::munmap(block.memory, block.bytes);
    } else {
      ::operator delete(block.memory);
    }
  }
  blocks_ = {};
  at_ = nullptr;
  left_ = memory_bytes_ = system_bytes_ = 0;
  next_bytes_ = kFirstBlockBytes;
}

}  // namespace ebbtide
