// Blocks of memory for input and output.
//
//   thread's free blocks     taken and given without a lock: replies and requests come and go with each pass
//   shared free blocks       up to a limit
//   blocks without memory    addresses only: the system has their pages
//
// So free blocks hold a bounded amount of memory, whichever threads took and gave them. The allocator has no such bound: it returns
// pages on the thread that allocated them, at that thread's next allocation. A reply is built on an offload thread and freed on a loop,
// and an idle offload thread kept as much as its largest reply.
#pragma once

#include <cstddef>

namespace ebbtide {

inline constexpr std::size_t kBlockBytes = 16 << 10;
/// Free blocks that a thread keeps at most.
inline constexpr std::size_t kThreadBlocks = 128;
/// Free blocks that a thread keeps after share_blocks().
inline constexpr std::size_t kIdleBlocks = 8;

/// Takes kBlockBytes of memory, not cleared. Throws std::bad_alloc.
char* take_block();
/// Any thread may give a block, not just the one that took it.
void give_block(char* block);
/// Shares the free blocks of this thread, except for kIdleBlocks. For threads that may be idle from now on.
void share_blocks();
/// Limits the memory of shared free blocks. Takes effect with the next blocks that are shared.
void set_shared_block_bytes(std::size_t bytes);

}  // namespace ebbtide
