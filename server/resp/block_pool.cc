// A thread's list of blocks is constant-initialized and has no destructor, so accessing it costs only the computation of its
// address. A second object, created with the first block, shares the blocks when the thread ends.
#include "resp/block_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <span>
#include <vector>

namespace ebbtide {
namespace {

constexpr std::size_t kBatch = kThreadBlocks / 2;  // number of blocks that move at once between a thread and the shared lists
constexpr std::size_t kSlabBytes = std::size_t{4} << 20;  // bytes of address space that are reserved at once
constexpr std::size_t kSharedBytes = std::size_t{4} << 20;

struct FreeList {
  std::array<char*, kThreadBlocks> blocks;
  std::size_t count;
  bool kept;  ///< true: a Keeper will share these blocks when the thread ends
};
constinit thread_local FreeList free_blocks{{}, 0, false};

/// The blocks that all threads share. Thread-safe.
class SharedBlocks {
 public:
  /// Moves blocks into `blocks`. Returns their number, at least 1.
  std::size_t take(std::span<char*> blocks) {
    std::lock_guard lock(mutex_);
    std::vector<char*>& from = resident_.empty() ? empty_ : resident_;
    if (from.empty()) map_slab();
    const std::size_t n = std::min(blocks.size(), from.size());
    std::copy(from.end() - static_cast<std::ptrdiff_t>(n), from.end(), blocks.begin());
    from.resize(from.size() - n);
    return n;
  }

  /// Takes over the blocks; may reorder `blocks`.
  void give(std::span<char*> blocks) {
    {
      std::lock_guard lock(mutex_);
      const std::size_t n = std::min(blocks.size(), most_resident_ - std::min(most_resident_, resident_.size()));
      resident_.insert(resident_.end(), blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(n));
      blocks = blocks.subspan(n);
    }
    if (blocks.empty()) return;
    release_pages(blocks);
    std::lock_guard lock(mutex_);
    empty_.insert(empty_.end(), blocks.begin(), blocks.end());
  }

  void set_limit(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    most_resident_ = bytes / kBlockBytes;
  }

 private:
  // Reserves room for all blocks in both lists, so that returning a block allocates nothing. Adds the slab's blocks in descending
  // order: take() takes from the end, so low addresses are used first.
  void map_slab() {
    constexpr std::size_t kMore = kSlabBytes / kBlockBytes;
    resident_.reserve(blocks_ + kMore);
    empty_.reserve(blocks_ + kMore);
    void* const slab = ::mmap(nullptr, kSlabBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slab == MAP_FAILED) throw std::bad_alloc();
    (void)::madvise(slab, kSlabBytes, MADV_NOHUGEPAGE);  // a huge page would occupy memory for blocks without pages
    blocks_ += kMore;
    for (std::size_t i = kMore; i-- > 0;) empty_.push_back(static_cast<char*>(slab) + i * kBlockBytes);
  }

  // Returns the pages of the blocks to the system. Blocks that were taken together are mostly neighbors, so each row of neighbors
  // takes one call.
  static void release_pages(std::span<char*> blocks) {
    std::sort(blocks.begin(), blocks.end());
    for (std::size_t i = 0, end = 0; i < blocks.size(); i = end) {
      for (end = i + 1; end < blocks.size() && blocks[end] == blocks[end - 1] + kBlockBytes;) ++end;
      (void)::madvise(blocks[i], (end - i) * kBlockBytes, MADV_DONTNEED);
    }
  }

  std::mutex mutex_;
  // The members below are guarded by mutex_.
  std::vector<char*> resident_;  // free blocks whose pages are in memory
  std::vector<char*> empty_;     // free blocks whose pages were returned to the system
  std::size_t blocks_ = 0;       // number of blocks in all slabs, which stay mapped
  std::size_t most_resident_ = kSharedBytes / kBlockBytes;
};

// Returns the shared blocks. They are never destroyed, since threads may return blocks until the process ends.
SharedBlocks& shared_blocks() {
  static auto* const blocks = new SharedBlocks;
  return *blocks;
}

void share_all_but(std::size_t kept) {
  FreeList& own = free_blocks;
  if (own.count <= kept) return;
  shared_blocks().give(std::span(own.blocks).subspan(kept, own.count - kept));
  own.count = kept;
}

struct Keeper {
  Keeper() { free_blocks.kept = true; }
  ~Keeper() {
    share_all_but(0);
    free_blocks.kept = false;
    ended = true;
  }
  static constinit thread_local bool ended;
};
constinit thread_local bool Keeper::ended = false;

void begin_to_keep() {
  thread_local const Keeper keeper;
  (void)keeper;
}

}  // namespace

char* take_block() {
  FreeList& own = free_blocks;
  if (own.count == 0) [[unlikely]] {
    own.count = shared_blocks().take(std::span(own.blocks).first(Keeper::ended ? 1 : kBatch));
    if (!own.kept && !Keeper::ended) begin_to_keep();
  }
  return own.blocks[--own.count];
}

void give_block(char* block) {
  FreeList& own = free_blocks;
  if (!own.kept) [[unlikely]] {
    if (Keeper::ended) return shared_blocks().give(std::span(&block, 1));  // the thread's Keeper is already destroyed
    begin_to_keep();
  }
  if (own.count == kThreadBlocks) {
    shared_blocks().give(std::span(own.blocks).first(kBatch));  // the oldest blocks of the list
    std::copy(own.blocks.begin() + kBatch, own.blocks.end(), own.blocks.begin());
    own.count = kThreadBlocks - kBatch;
  }
  own.blocks[own.count++] = block;
}

void share_blocks() { share_all_but(kIdleBlocks); }

void set_shared_block_bytes(std::size_t bytes) { shared_blocks().set_limit(bytes); }

}  // namespace ebbtide
