// A block is one allocation: reference counts, header, bytes. These keep a block in memory:
//   * the table of its shard, through the shared_ptr `self` in the block's own header;
//   * pins, which copy that shared_ptr;
//   * readers under an EpochGuard, which change no reference count; the epoch waits for them.
// A block that leaves the table (by eviction or erase_file) goes to the epoch. The epoch releases `self` when no guard is left
// that could have seen the block. Until then `self` is not written, so a reader may copy it at any time.
//
// The table is an array of buckets of one cache line: seven slots (16 bits of hash, 48 of address) and a link to an overflow
// bucket. Writers hold the shard's mutex and store single words; readers load them. A full table is replaced by a larger table,
// and the old table goes to the epoch, too. A reader that still uses the old table may not find a block that was added since.
// Such a lookup is a miss; it never returns a wrong block.
#include "cache/block_cache.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <new>
#include <unordered_map>
#include <vector>

#include "base/invariant.h"
#include "base/mutex.h"
#include "cache/striped_counter.h"

namespace ebbtide {
namespace {

constexpr std::size_t kMaxShards = 16;
constexpr std::uint64_t kMinShardBytes = std::uint64_t{1} << 20;  // an eighth of a shard then has room for a page of 64 KiB
constexpr std::uint64_t kLargestShare = 8;                        // a block over 1 / kLargestShare of a shard is not kept
constexpr std::size_t kSlots = 7;
// The average number of blocks in a bucket at which the table grows. By Poisson(4), 5 % of the buckets then have an overflow
// bucket.
constexpr std::size_t kBlocksPerBucket = 4;
constexpr std::size_t kMinBuckets = 16;
constexpr std::size_t kFirstBytes = 192;  // bytes of a block that are prefetched: a page's header, tags and offsets
// The allocator's overhead is assumed to be 1 / 16 of the allocated memory: the allocator's pages are partly empty, since
// different threads allocate and free blocks. The benchmark `memory` measured mostly 2 to 6 % of all counted memory.
constexpr std::size_t kAllocatorPart = 16;
constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << 48) - 1;

std::uint64_t hash_of(BlockKey key) {
  std::uint64_t z = key.file * 0x9e3779b97f4a7c15U + key.offset;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}
std::uint64_t tag_of(std::uint64_t hash) { return hash & ~kAddressMask; }

/// Bytes of all blocks that are not freed yet. Outlives the cache as long as a pin exists.
using Accounting = std::atomic<std::uint64_t>;

struct Block {
  CachedBlock block{nullptr, 0};
  BlockKey key;
  std::uint64_t hash = 0;
  std::uint64_t charge = 0;
  enum class State : std::uint8_t { kNew, kUsed, kMarked };  // kMarked: used since the clock's hand passed
  mutable std::atomic<State> state{State::kNew};
  // The shard's mutex guards the next four members while the block is in the table; afterwards only the epoch uses them.
  Block* clock_next = nullptr;
  Block* clock_prev = nullptr;
  Block* file_next = nullptr;  // next block of the same file in the shard
  Block* file_prev = nullptr;
  std::shared_ptr<Block> self;
  std::shared_ptr<Accounting> accounting;

  ~Block() { accounting->fetch_sub(charge, std::memory_order_relaxed); }
  [[nodiscard]] bool is(BlockKey other) const { return key.offset == other.offset && key.file == other.file; }
};

const Block* block_of(const CachedBlock* found) {
  static_assert(offsetof(Block, block) == 0);
  return reinterpret_cast<const Block*>(found);
}

/// Prefetches the block's first bytes, which follow the header.
void prefetch_first_bytes(const Block* block) {
  for (std::size_t at = 0; at < kFirstBytes; at += 64) __builtin_prefetch(reinterpret_cast<const char*>(block + 1) + at);
}

/// An allocator for std::allocate_shared that adds memory for the block's bytes after the object. Sets `*tail` to that memory,
/// and `*total_bytes` to the size of the whole allocation.
template <typename T>
struct TailAllocator {
  using value_type = T;
  std::size_t tail_bytes;
  char** tail;
  std::uint64_t* total_bytes;

  TailAllocator(std::size_t bytes, char** where, std::uint64_t* total) : tail_bytes(bytes), tail(where), total_bytes(total) {}
  template <typename U>
  TailAllocator(const TailAllocator<U>& o)
      : tail_bytes(o.tail_bytes), tail(o.tail), total_bytes(o.total_bytes) {}  // NOLINT: a rebind
  T* allocate(std::size_t n) {
    auto* memory = static_cast<char*>(::operator new(n * sizeof(T) + tail_bytes));
    *tail = memory + n * sizeof(T);
    const std::size_t given = ::malloc_usable_size(memory);
    *total_bytes = given + given / kAllocatorPart;
    return reinterpret_cast<T*>(memory);
  }
  void deallocate(T* p, std::size_t) { ::operator delete(p); }
  template <typename U>
  bool operator==(const TailAllocator<U>&) const {
    return true;
  }
};

std::shared_ptr<Block> make_block(BlockKey key, std::uint64_t hash, Bytes data, const std::shared_ptr<Accounting>& accounting) {
  char* tail = nullptr;
  std::uint64_t total = 0;
  auto block = std::allocate_shared<Block>(TailAllocator<Block>(data.size(), &tail, &total));
  if (!data.empty()) std::memcpy(tail, data.data(), data.size());
  block->block = {tail, static_cast<std::uint32_t>(data.size())};
  block->key = key;
  block->hash = hash;
  block->charge = total;
  block->accounting = accounting;
  accounting->fetch_add(total, std::memory_order_relaxed);
  return block;
}

std::shared_ptr<const CachedBlock> pin_of(const std::shared_ptr<Block>& block) { return {block, &block->block}; }

struct alignas(64) Bucket {
  std::array<std::atomic<std::uint64_t>, kSlots> slots{};
  std::atomic<Bucket*> overflow{nullptr};
};
static_assert(sizeof(Bucket) == 64, "one cache line");

/// Readers need an EpochGuard; writers need the shard's mutex.
struct Table {
  std::size_t mask;
  std::vector<Bucket> buckets;
  std::size_t overflows = 0;

  explicit Table(std::size_t count) : mask(count - 1), buckets(count) {}
  ~Table() {
    for (Bucket& b : buckets) {
      for (Bucket* o = b.overflow.load(std::memory_order_relaxed); o != nullptr;) {
        Bucket* next = o->overflow.load(std::memory_order_relaxed);
        delete o;
        o = next;
      }
    }
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  [[nodiscard]] std::uint64_t bytes() const { return (buckets.size() + overflows) * sizeof(Bucket); }

  [[nodiscard]] Block* find(BlockKey key, std::uint64_t hash) const {
    const std::uint64_t tag = tag_of(hash);
    for (const Bucket* b = &buckets[hash & mask]; b != nullptr; b = b->overflow.load(std::memory_order_acquire)) {
      for (const auto& place : b->slots) {
        const std::uint64_t slot = place.load(std::memory_order_acquire);
        if (slot == 0 || (slot & ~kAddressMask) != tag) continue;
        auto* block = reinterpret_cast<Block*>(slot & kAddressMask);
        prefetch_first_bytes(block);  // loads them together with the block's header, whose key is compared next
        if (block->is(key)) return block;
      }
    }
    return nullptr;
  }
  void add(Block* block) {
    const auto address = reinterpret_cast<std::uint64_t>(block);
    ASSERT((address & ~kAddressMask) == 0);
    for (Bucket* b = &buckets[block->hash & mask];;) {
      for (auto& place : b->slots) {
        if (place.load(std::memory_order_relaxed) != 0) continue;
        place.store(tag_of(block->hash) | address, std::memory_order_release);
        return;
      }
      Bucket* next = b->overflow.load(std::memory_order_relaxed);
      if (next == nullptr) {
        next = new Bucket;
        overflows++;
        b->overflow.store(next, std::memory_order_release);
      }
      b = next;
    }
  }
  void remove(const Block* block) {
    const std::uint64_t slot = tag_of(block->hash) | reinterpret_cast<std::uint64_t>(block);
    for (Bucket* b = &buckets[block->hash & mask]; b != nullptr; b = b->overflow.load(std::memory_order_relaxed)) {
      for (auto& place : b->slots) {
        if (place.load(std::memory_order_relaxed) != slot) continue;
        place.store(0, std::memory_order_release);
        return;
      }
    }
    ASSERT_MSG(false, "a block in the clock's ring must be in the table");
  }
};

/// Blocks removed from a table under the mutex; the epoch gets them after the mutex is unlocked. The blocks form a list through
/// clock_next, so that a closure can hold the list without an allocation.
struct Evicted {
  Block* first = nullptr;
  void add(Block* block) {
    block->clock_next = first;
    first = block;
  }
};

struct alignas(64) Shard {
  // All lookups read this pointer, which changes only when the table grows: so it has a cache line of its own.
  std::atomic<Table*> table{nullptr};

  alignas(64) Mutex mutex;
  Block* hand GUARDED_BY(mutex) = nullptr;  // CLOCK's hand: the next candidate for eviction in the ring of all blocks
  std::size_t count GUARDED_BY(mutex) = 0;
  std::uint64_t resident GUARDED_BY(mutex) = 0;                 // sum of the charges of blocks in the table
  std::unordered_map<FileNum, Block*> files GUARDED_BY(mutex);  // for each file, its first block
  std::atomic<std::uint64_t> table_bytes{0};

  Table* grow_if_full() REQUIRES(mutex);
  void link(Block* block) REQUIRES(mutex);
  void unlink(Block* block) REQUIRES(mutex);
  void evict_to(std::uint64_t limit, Evicted* evicted) REQUIRES(mutex);
};

/// Doubles the table if it is full. Returns the old table, which the caller gives to the epoch; null if nothing changed.
Table* Shard::grow_if_full() {
  Table* old = table.load(std::memory_order_relaxed);
  if (count < old->buckets.size() * kBlocksPerBucket) return nullptr;
  auto* larger = new Table(old->buckets.size() * 2);
  Block* block = hand;
  for (std::size_t i = 0; i < count; i++, block = block->clock_next) larger->add(block);
  table.store(larger, std::memory_order_release);
  table_bytes.store(larger->bytes(), std::memory_order_relaxed);
  return old;
}

/// Inserts the block just behind the hand, so that it is the last candidate for eviction.
void Shard::link(Block* block) {
  if (hand == nullptr) {
    block->clock_next = block->clock_prev = hand = block;
  } else {
    block->clock_next = hand;
    block->clock_prev = hand->clock_prev;
    block->clock_prev->clock_next = block;
    hand->clock_prev = block;
  }
  count++;
  resident += block->charge;
  Block*& first = files[block->key.file];
  block->file_next = first;
  if (first != nullptr) first->file_prev = block;
  first = block;
}

void Shard::unlink(Block* block) {
  if (block->clock_next == block) {
    hand = nullptr;
  } else {
    if (hand == block) hand = block->clock_next;
    block->clock_prev->clock_next = block->clock_next;
    block->clock_next->clock_prev = block->clock_prev;
  }
  count--;
  resident -= block->charge;
  if (block->file_next != nullptr) block->file_next->file_prev = block->file_prev;
  if (block->file_prev != nullptr) {
    block->file_prev->file_next = block->file_next;
  } else if (block->file_next != nullptr) {
    files[block->key.file] = block->file_next;
  } else {
    files.erase(block->key.file);
  }
  table.load(std::memory_order_relaxed)->remove(block);
}

void Shard::evict_to(std::uint64_t limit, Evicted* evicted) {
  // Readers may set marks again while this loop clears them. So only the first two rounds respect marks; then any block is
  // evicted, and the loop ends.
  for (std::size_t looked = 0, most = 2 * count; resident > limit && hand != nullptr; looked++) {
    Block* block = hand;
    if (looked < most && block->state.load(std::memory_order_relaxed) == Block::State::kMarked) {
      block->state.store(Block::State::kUsed, std::memory_order_relaxed);
      hand = block->clock_next;
      continue;
    }
    unlink(block);
    evicted->add(block);
  }
}

void release_all(Block* first) {
  while (first != nullptr) {
    Block* next = first->clock_next;
    std::shared_ptr<Block> last = std::move(first->self);  // frees the block at the end of this scope, unless it is pinned
    first = next;
  }
}

}  // namespace

struct BlockCache::Impl {
  Impl(std::uint64_t bytes, Epoch& e) : epoch(e), shard_count(shards_for(bytes)), capacity(bytes) {
    for (std::size_t i = 0; i < shard_count; i++) {
      auto* table = new Table(kMinBuckets);
      shards[i].table_bytes.store(table->bytes(), std::memory_order_relaxed);
      shards[i].table.store(table, std::memory_order_release);
    }
  }
  ~Impl() {
    for (std::size_t i = 0; i < shard_count; i++) {
      Evicted rest;
      {
        MutexLock lock(shards[i].mutex);
        while (shards[i].hand != nullptr) {
          Block* block = shards[i].hand;
          shards[i].unlink(block);
          rest.add(block);
        }
      }
      release_all(rest.first);
      delete shards[i].table.load(std::memory_order_relaxed);
    }
  }
  static std::size_t shards_for(std::uint64_t bytes) {
    return static_cast<std::size_t>(std::clamp<std::uint64_t>(std::bit_floor(bytes / kMinShardBytes), 1, kMaxShards));
  }
  [[nodiscard]] Shard& shard(std::uint64_t hash) { return shards[(hash >> 32) & (shard_count - 1)]; }
  [[nodiscard]] std::uint64_t shard_limit() const { return capacity.load(std::memory_order_relaxed) / shard_count; }
  /// Returns the bytes of blocks that `shard` may hold now.
  [[nodiscard]] std::uint64_t block_limit(const Shard& shard) const {
    const std::uint64_t limit = shard_limit(), table = shard.table_bytes.load(std::memory_order_relaxed);
    return limit > table ? limit - table : 0;
  }
  Block* find(BlockKey key, std::uint64_t hash) { return shard(hash).table.load(std::memory_order_acquire)->find(key, hash); }
  void retire(Evicted evicted) {
    if (evicted.first == nullptr) return;
    epoch.retire([first = evicted.first] { release_all(first); });
    epoch.collect();
  }

  // A marked block is not written to, so that threads do not share the cache line of a hot block.
  void use(const Block& block) {
    if (block.state.load(std::memory_order_relaxed) != Block::State::kMarked &&
        block.state.exchange(Block::State::kMarked, std::memory_order_relaxed) == Block::State::kNew)
      return;
    hits.add();
  }

  Epoch& epoch;
  const std::size_t shard_count;
  std::atomic<std::uint64_t> capacity;
  std::shared_ptr<Accounting> accounting = std::make_shared<Accounting>(0);
  std::array<Shard, kMaxShards> shards;
  StripedCounter hits, misses;
};

BlockCache::BlockCache(std::uint64_t capacity, Epoch& epoch) : impl_(std::make_unique<Impl>(capacity, epoch)) {}
BlockCache::~BlockCache() = default;

const CachedBlock* BlockCache::lookup(BlockKey key) const {
  const Block* block = impl_->find(key, hash_of(key));
  if (block == nullptr) return nullptr;
  impl_->use(*block);
  return &block->block;
}

const void* BlockCache::start(BlockKey key) const {
  const std::uint64_t hash = hash_of(key);
  const Table* table = impl_->shard(hash).table.load(std::memory_order_acquire);
  const Bucket* bucket = &table->buckets[hash & table->mask];
  __builtin_prefetch(bucket);
  return bucket;
}

const CachedBlock* BlockCache::guess(BlockKey key, const void* started) const {
  const std::uint64_t tag = tag_of(hash_of(key));
  for (const auto& place : static_cast<const Bucket*>(started)->slots) {
    const std::uint64_t slot = place.load(std::memory_order_acquire);
    if (slot == 0 || (slot & ~kAddressMask) != tag) continue;
    const auto* const block = reinterpret_cast<const Block*>(slot & kAddressMask);
    __builtin_prefetch(block);
    prefetch_first_bytes(block);
    return &block->block;
  }
  return nullptr;
}

const CachedBlock* BlockCache::confirm(BlockKey key, const CachedBlock* guess) const {
  const Block* block = guess == nullptr ? nullptr : block_of(guess);
  if (block == nullptr || !block->is(key)) [[unlikely]]
    block = impl_->find(key, hash_of(key));
  return block == nullptr ? nullptr : &block->block;
}

void BlockCache::use(const CachedBlock* found) const { impl_->use(*block_of(found)); }

std::shared_ptr<const CachedBlock> BlockCache::pin(BlockKey key) const {
  EpochGuard guard(impl_->epoch);
  const Block* block = impl_->find(key, hash_of(key));
  return block == nullptr ? nullptr : pin_of(block->self);
}

std::shared_ptr<const CachedBlock> BlockCache::insert(BlockKey key, Bytes data) {
  Impl& m = *impl_;
  m.misses.add();
  const std::uint64_t hash = hash_of(key);
  std::shared_ptr<Block> block = make_block(key, hash, data, m.accounting);
  Shard& shard = m.shard(hash);
  if (block->charge > m.shard_limit() / kLargestShare) return pin_of(block);
  Evicted evicted;
  Table* replaced = nullptr;
  {
    MutexLock lock(shard.mutex);
    if (Block* present = shard.table.load(std::memory_order_relaxed)->find(key, hash)) return pin_of(present->self);
    replaced = shard.grow_if_full();
    // Makes room for the block, and for an overflow bucket that the block may need.
    const std::uint64_t limit = m.block_limit(shard), need = block->charge + sizeof(Bucket);
    shard.evict_to(limit > need ? limit - need : 0, &evicted);
    block->self = block;
    Table* table = shard.table.load(std::memory_order_relaxed);
    table->add(block.get());
    shard.table_bytes.store(table->bytes(), std::memory_order_relaxed);
    shard.link(block.get());
  }
  if (replaced != nullptr) m.epoch.retire([replaced] { delete replaced; });
  m.retire(evicted);
  return pin_of(block);
}

void BlockCache::erase_file(FileNum file) {
  for (std::size_t i = 0; i < impl_->shard_count; i++) {
    Shard& shard = impl_->shards[i];
    Evicted erased;
    {
      MutexLock lock(shard.mutex);
      const auto it = shard.files.find(file);
      for (Block* block = it == shard.files.end() ? nullptr : it->second; block != nullptr;) {
        Block* const next = block->file_next;
        shard.unlink(block);
        erased.add(block);
        block = next;
      }
    }
    impl_->retire(erased);
  }
}

std::uint64_t BlockCache::memory_of(const CachedBlock* block) { return block_of(block)->charge; }

void BlockCache::set_capacity(std::uint64_t bytes) {
  impl_->capacity.store(bytes, std::memory_order_relaxed);
  for (std::size_t i = 0; i < impl_->shard_count; i++) {
    Shard& shard = impl_->shards[i];
    Evicted evicted;
    {
      MutexLock lock(shard.mutex);
      shard.evict_to(impl_->block_limit(shard), &evicted);
    }
    impl_->retire(evicted);
  }
}

std::uint64_t BlockCache::capacity() const { return impl_->capacity.load(std::memory_order_relaxed); }

std::uint64_t BlockCache::usage() const {
  std::uint64_t bytes = impl_->accounting->load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < impl_->shard_count; i++) bytes += impl_->shards[i].table_bytes.load(std::memory_order_relaxed);
  return bytes;
}

std::uint64_t BlockCache::hits() const { return impl_->hits.total(); }
std::uint64_t BlockCache::misses() const { return impl_->misses.total(); }

}  // namespace ebbtide
