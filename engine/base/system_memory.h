// Memory from the system instead of the allocator: any thread may unmap it, and then its pages are free at once.
#pragma once

#include <cstddef>

namespace ebbtide {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

/// Maps `bytes` bytes, a multiple of 4096, that read as zeros; the system provides each page at its first use. Returns null if
/// the system has no memory. Memory of kHugePageBytes or more is aligned to kHugePageBytes, and lies in huge pages if the
/// system has some. The caller frees it by unmap_memory() with the same number of bytes.
void* map_memory(std::size_t bytes);
void unmap_memory(void* memory, std::size_t bytes);

}  // namespace ebbtide
