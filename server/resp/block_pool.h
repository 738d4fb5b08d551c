// Blocks of memory for input and output. Each thread keeps some dozens of free ones, since replies and requests come and go with
// each pass, which would keep the allocator busy. A block may be returned on another thread than the one that took it.
#pragma once

#include <cstddef>

namespace ebbtide {

inline constexpr std::size_t kBlockBytes = 16 << 10;

/// Takes kBlockBytes of memory, not cleared.
char* take_block();
void give_block(char* block);

}  // namespace ebbtide
