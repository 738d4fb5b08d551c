#include "base/system_memory.h"

#include <sys/mman.h>

#include <cstdint>

namespace ebbtide {

void* map_memory(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t spare = bytes >= kHugePageBytes ? kHugePageBytes - kPage : 0;  // room to align the start to a huge page
  void* const mapped = ::mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (spare == 0) return mapped;
  char* const begin = static_cast<char*>(mapped);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(begin) % kHugePageBytes;
  if (before != 0) ::munmap(begin, before);
  if (before != spare) ::munmap(begin + before + bytes, spare - before);
#ifdef MADV_HUGEPAGE
  ::madvise(begin + before, bytes, MADV_HUGEPAGE);
#endif
  return begin + before;
}

void unmap_memory(void* memory, std::size_t bytes) { ::munmap(memory, bytes); }

}  // namespace ebbtide
