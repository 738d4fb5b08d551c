// A hash index of keys: buckets of one cache line, lock-free lookups and insertions, no removal.
//
// A bucket has seven slots and a link to an overflow bucket. A slot holds a node's address and, in the 16 bits that addresses
// leave free, a tag from the hash: a miss reads one line and no node (but for one in 9,000 or so), a hit one line and its node.
// Slots fill in order and never empty. So the first writer of a slot wins, and two writers of one key compete for the same slot.
//
// The table of buckets begins with 2 KiB or less and grows by a factor of eight, up to a size for the expected number of keys;
// more keys than expected make chains, not errors. Growing is incremental: each add() moves a few buckets, no thread waits.
//   1. While it grows, keys are added to the new table. A reader that misses there asks the old one, whose keys stay in it.
//   2. A writer may add to a part of the old table that has moved already. So add() checks the current table again afterwards,
//      and adds the key there too if it has changed. When add() returns, the key is in the current table, or in a part yet to be
//      moved. Slots and `table_` are written and read in one total order (seq_cst): either the move sees the slot, or the writer
//      sees the new table.
//   3. A writer that found a node makes it known to others. So find_to_write() follows rule 2 as well.
// Readers are not counted, so old tables stay until the index is destroyed: a seventh of the memory of the last one.
#pragma once

#include <array>
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
  /// Grows to have room for `expected_keys` at two to four keys a bucket; small tables and overflow buckets come from `arena`,
  /// which must outlive this.
  HashIndex(std::size_t expected_keys, Arena& arena);
  ~HashIndex();
  HashIndex(const HashIndex&) = delete;
  HashIndex& operator=(const HashIndex&) = delete;

  /// The node of `key`, or null.
  [[nodiscard]] KeyNode* find(const LookupKey& key) const;
  /// The same for a writer that will add a version to the node: when it returns, every later find() finds the node.
  [[nodiscard]] KeyNode* find_to_write(const LookupKey& key);
  /// Adds `node`, the node of `key`; no effect if the index has it. The index must not have another node of that key.
  void add(const LookupKey& key, KeyNode* node);
  /// Starts the load of the bucket (stage 0), or of the node that find() would read (stage 1): true if there is one.
  bool prefetch(const LookupKey& key, int stage) const;
  /// Bytes of tables outside the arena.
  [[nodiscard]] std::size_t memory_bytes() const { return mapped_bytes_.load(std::memory_order_relaxed); }
  /// Buckets of the current table.
  [[nodiscard]] std::size_t buckets() const { return std::size_t{1} << log2_of(table_.load(std::memory_order_acquire)); }

 private:
  static constexpr int kSlots = 7;
  static constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << 48) - 1;
  struct alignas(64) Bucket {
    std::atomic<std::uint64_t> slots[kSlots];
    std::atomic<Bucket*> overflow;
  };
  static_assert(sizeof(Bucket) == 64, "one cache line");

  /// A table in one word, so that a reader loads it whole: the address of its buckets, with log2 of their number in the low bits.
  using Table = std::uint64_t;
  static constexpr Table kLog2Mask = 31, kGrowing = 32, kFlags = 63;
  static constexpr unsigned kGrowBits = 3;  // a table has eight times the buckets of the one before
  static constexpr std::size_t kMaxTables = 8;
  struct Generation {
    std::atomic<Table> table{0};
    std::atomic<std::size_t> overflows{0};          // overflow buckets, which say how full it is
    std::atomic<std::size_t> claimed{0}, moved{0};  // buckets, on the way to the next table
  };

  static unsigned log2_of(Table table) { return table & kLog2Mask; }
  static Table without_growing(Table table) { return table & ~kGrowing; }
  static Bucket* bucket(Table table, std::uint64_t hash) {
    return reinterpret_cast<Bucket*>(table & ~kFlags) + (hash & ((std::uint64_t{1} << log2_of(table)) - 1));
  }
  static std::uint64_t tag_of(std::uint64_t hash) { return hash & ~kAddressMask; }
  static KeyNode* node_of(std::uint64_t slot) { return reinterpret_cast<KeyNode*>(slot & kAddressMask); }
  [[nodiscard]] std::size_t number_of(Table table) const { return (log2_of(table) - first_log2_) / kGrowBits; }
  [[nodiscard]] Table older_than(Table table) const;
  static KeyNode* find_in(Table table, const LookupKey& key);
  void add_to(Table table, std::uint64_t hash, KeyNode* node);
  Bucket* overflow_of(Bucket* bucket, Generation& generation);
  void grow_if_full(Table table);
  void move_some(Table to);
  Table make_table(unsigned log2);

  std::atomic<Table> table_{0};  // the current one
  Arena& arena_;
  const unsigned last_log2_, first_log2_;
  std::atomic<bool> growing_{false};  // from before the new table is made until the last bucket has moved
  std::atomic<std::size_t> mapped_bytes_{0};
  std::array<Generation, kMaxTables> generations_;
};

}  // namespace ebbtide
