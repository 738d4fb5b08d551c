// Memory from the system instead of the allocator: its pages are free at once when it is unmapped, whichever thread does that.
#pragma once

#include <cstddef>

namespace ebbtide {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

/// Maps memory, which the system fills with zeros page by page when it is touched. Memory of kHugePageBytes or more is aligned to
/// them, and is in huge pages if the system has some. `bytes` must be a multiple of 4096. Returns null if the system has no
/// memory. The caller unmaps it with unmap_memory(), and the same number of bytes.
void* map_memory(std::size_t bytes);
void unmap_memory(void* memory, std::size_t bytes);

}  // namespace ebbtide
