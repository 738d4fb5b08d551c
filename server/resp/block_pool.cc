// The thread's free blocks are linked through their first bytes. The list has no destructor, so that using it takes no more than
// its address. The object that frees the blocks when the thread ends is made when the first block comes in.
#include "resp/block_pool.h"

#include <cstring>
#include <new>

namespace ebbtide {
namespace {

constexpr std::size_t kMaxFree = 256;  // 4 MiB a thread

struct FreeList {
  char* first;
  std::size_t count;
  bool kept;  ///< an object frees it when the thread ends
};
constinit thread_local FreeList free_blocks{nullptr, 0, false};

char* take_first() {
  char* block = free_blocks.first;
  std::memcpy(&free_blocks.first, block, sizeof(char*));
  --free_blocks.count;
  return block;
}

struct Keeper {
  Keeper() { free_blocks.kept = true; }
  ~Keeper() {
    while (free_blocks.first != nullptr) ::operator delete(take_first());
    free_blocks.count = kMaxFree;  // blocks that come in later are freed at once
  }
};

}  // namespace

char* take_block() {
  if (free_blocks.first == nullptr) return static_cast<char*>(::operator new(kBlockBytes));
  return take_first();
}

void give_block(char* block) {
  if (!free_blocks.kept) [[unlikely]] {
    thread_local const Keeper keeper;
    (void)keeper;
  }
  if (free_blocks.count >= kMaxFree) {
    ::operator delete(block);
    return;
  }
  std::memcpy(block, &free_blocks.first, sizeof(char*));
  free_blocks.first = block;
  ++free_blocks.count;
}

}  // namespace ebbtide
