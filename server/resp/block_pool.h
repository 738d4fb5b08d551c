// Blocks of memory for input and output, kept free by the dozen in each thread: replies and requests come and go at the pace of
// passes, and the allocator need not hear of it. A block may be given back on another thread than it was taken on.
#pragma once

#include <cstddef>

namespace ebbtide {

inline constexpr std::size_t kBlockBytes = 16 << 10;

/// kBlockBytes of memory, not cleared.
char* take_block();
void give_block(char* block);

}  // namespace ebbtide
