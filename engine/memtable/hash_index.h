// Keys by hash: buckets of one cache line, found-or-added without a lock, never removed from.
//
// A bucket has seven slots and a link to an overflow bucket. A slot holds a node's address and, in the 16 bits that addresses
// leave free, a tag from the hash: a miss reads one line and no node (but for one in 9,000 or so), a hit one line and its node.
// Slots fill in order and never empty, so the first writer of a slot decides, and two writers of one key meet in the same slot.
//
// The number of buckets is fixed: a memtable is frozen at a size known beforehand. More keys than expected make chains, not
// errors.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <engine/types.h>
#include "base/arena.h"
#include "memtable/key_node.h"

namespace ebbtide {

/// Thread-safe, lock-free.
class HashIndex {
 public:
  /// Room for `expected_keys` at two to four keys a bucket; overflow buckets come from `arena`, which must outlive this.
  HashIndex(std::size_t expected_keys, Arena& arena);
  ~HashIndex();
  HashIndex(const HashIndex&) = delete;
  HashIndex& operator=(const HashIndex&) = delete;

  /// The node of `key`, or null.
  [[nodiscard]] KeyNode* find(const LookupKey& key) const;
  /// Adds `node`, the node of `key`; does nothing if that very node is there. Another node of the same key must not be.
  void add(const LookupKey& key, KeyNode* node);
  /// Starts the load of the bucket (stage 0), or of the node that find() would read (stage 1): true if there is one.
  bool prefetch(const LookupKey& key, int stage) const;
  /// Bytes of the fixed part; overflow buckets count in the arena.
  [[nodiscard]] std::size_t memory_bytes() const { return (mask_ + 1) * sizeof(Bucket); }

 private:
  static constexpr int kSlots = 7;
  static constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << 48) - 1;
  struct alignas(64) Bucket {
    std::atomic<std::uint64_t> slots[kSlots];
    std::atomic<Bucket*> overflow;
  };
  static_assert(sizeof(Bucket) == 64, "one cache line");

  [[nodiscard]] Bucket* bucket(std::uint64_t hash) const { return &buckets_[hash & mask_]; }
  static std::uint64_t tag_of(std::uint64_t hash) { return hash & ~kAddressMask; }
  static KeyNode* node_of(std::uint64_t slot) { return reinterpret_cast<KeyNode*>(slot & kAddressMask); }
  Bucket* overflow_of(Bucket* bucket);

  Arena& arena_;
  std::size_t mask_;
  Bucket* buckets_;
};

}  // namespace ebbtide
