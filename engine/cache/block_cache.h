// The block cache: decoded pages in memory. A lookup takes no lock and writes no shared memory.
//
// A lookup under an EpochGuard costs one probe of a lock-free hash table. The page that it returns lives at least until the
// guard ends, even if the page is evicted meanwhile (the epoch frees it later). A reader that needs a page for longer takes a
// pin. Eviction is by CLOCK: a use sets the page's mark, but only if the mark is not set yet, so hot pages are not
// written to.
#pragma once

#include <cstdint>
#include <memory>

#include <engine/types.h>
#include "base/epoch.h"

namespace ebbtide {

/// The decoded bytes of one block. Immutable. Only BlockCache allocates and frees blocks.
struct CachedBlock {
  const char* data;
  std::uint32_t size;

  [[nodiscard]] Bytes bytes() const { return {data, size}; }
};

/// Identifies a block by its file and its offset in the file.
struct BlockKey {
  FileNum file = kNoFile;
  std::uint64_t offset = 0;
};

/// Thread-safe.
class BlockCache {
 public:
  /// `capacity` is in bytes. `epoch` must outlive the cache.
  BlockCache(std::uint64_t capacity, Epoch& epoch);
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// Returns the block, or null if the cache does not have it. Requires an EpochGuard; the result is valid as long as the guard.
  /// Calls use() for the block.
  [[nodiscard]] const CachedBlock* lookup(BlockKey key) const;
  /// start(), guess(), confirm() and use() do a lookup in steps, for callers that do other work during memory loads. All steps
  /// must be under one EpochGuard. start() starts the load of the bucket. guess() takes the result of start(), returns a block
  /// that is most likely the right one, or null, and starts to load its first bytes. confirm() takes the result of guess() and
  /// returns the block, or null if the cache does not have it.
  [[nodiscard]] const void* start(BlockKey key) const;
  [[nodiscard]] const CachedBlock* guess(BlockKey key, const void* started) const;
  [[nodiscard]] const CachedBlock* confirm(BlockKey key, const CachedBlock* guess) const;
  /// Sets the mark of a block that a reader uses, and counts a hit. The first use of a block is no hit, since it caused the read.
  void use(const CachedBlock* found) const;
  /// Returns the block, or null if the cache does not have it. The pointer keeps the block alive. Any thread may call this; no
  /// guard is needed. A reader that uses the block calls use(), too.
  [[nodiscard]] std::shared_ptr<const CachedBlock> pin(BlockKey key) const;
  /// Adds a copy of `data`, which was read from a file, and counts a miss. Evicts other blocks as needed, and returns the block
  /// with a pin. If the block is present, returns that. A block larger than an eighth of a shard is not kept in the cache.
  std::shared_ptr<const CachedBlock> insert(BlockKey key, Bytes data);
  /// Removes every block of a file. The time grows with the number of these blocks.
  void erase_file(FileNum file);

  /// Returns the bytes of memory that a block takes in any BlockCache: its data, its header and the allocator's overhead.
  [[nodiscard]] static std::uint64_t memory_of(const CachedBlock* block);
  void set_capacity(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t capacity() const;
  /// Returns the bytes of memory in use, including overhead. An evicted block counts until it is freed: while it is pinned, or
  /// a guard may still use it. Only for that reason may usage() exceed the capacity.
  [[nodiscard]] std::uint64_t usage() const;
  /// Return how often, since construction, a reader used a block that the cache had (hits), and how often one was read (misses).
  [[nodiscard]] std::uint64_t hits() const;
  [[nodiscard]] std::uint64_t misses() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide
