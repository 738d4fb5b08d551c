// A pool of memory blocks for input and output.
//
//   thread's free blocks     taken and given without a lock: replies and requests come and go with each pass
//   shared free blocks       up to a limit
//   blocks without memory    addresses only: their pages were returned to the system
//
// So the memory of free blocks is bounded, whichever threads took and returned them. The allocator has no such bound: it returns
// pages on the thread that allocated them, at that thread's next allocation. With the allocator, a reply that an offload thread
// built and a loop freed stayed in memory while the offload thread was idle.
#pragma once

#include <cstddef>

namespace ebbtide {

inline constexpr std::size_t kBlockBytes = 16 << 10;
/// The most free blocks that a thread keeps for itself; it shares the others.
inline constexpr std::size_t kThreadBlocks = 128;
/// The most free blocks that a thread keeps after share_blocks().
inline constexpr std::size_t kIdleBlocks = 8;

/// Returns a block of kBlockBytes, not cleared. Throws std::bad_alloc.
char* take_block();
/// Returns a block to the pool. Any thread may do so, not only the one that took the block.
void give_block(char* block);
/// Moves this thread's free blocks, except for kIdleBlocks, to the shared ones. A thread calls this before it may become idle.
void share_blocks();
/// Limits the memory of shared free blocks. The limit applies to blocks that are shared later.
void set_shared_block_bytes(std::size_t bytes);

}  // namespace ebbtide
