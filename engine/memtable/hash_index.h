// A hash index of keys: buckets of one cache line, lock-free lookups and insertions, no removal.
//
// A bucket has seven slots and a link to an overflow bucket. A slot holds a node's address and, in the 16 bits that addresses
// leave free, a tag from the key's hash. So a lookup of a present key reads one cache line and the key's node. A lookup of an
// absent key reads one line and, except in one lookup of about 9,000, no node. Slots fill in order and never become empty. So
// two writers of one key compete for the same slot, and the first writer gets the slot.
//
// The table of buckets begins with 2 KiB or less and grows by a factor of eight, up to a size for the expected number of keys.
// More keys than expected make chains, not errors. Growing is incremental: each add() moves a few buckets, and no thread waits.
//   1. While the table grows, keys are added to the new table. A reader that does not find its key there searches the old table,
//      which keeps its keys.
//   2. A writer that still uses the old table may add its key to a bucket that has already moved. So after adding a key, add()
//      checks whether the current table has changed, and if so, adds the key to the new table, too. When add() returns, the key
//      is in the current table, or in a bucket of the old table that will be moved. Slots and `table_` are written and read in
//      one total order (seq_cst). So either the move sees the slot, or the writer sees the new table.
//   3. A writer that finds its key's node adds a version to that node, calls no add(), and may then be acknowledged. So
//      find_to_write() also checks the current table again, as add() does.
// Readers are not counted, so old tables stay until the index is destroyed. All old tables together take a seventh of the memory
// of the current table.
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
  /// The index grows until it has room for `expected_keys`, with two to four keys a bucket. Small tables and overflow buckets are
  /// allocated from `arena`, which must outlive the index.
  HashIndex(std::size_t expected_keys, Arena& arena);
  ~HashIndex();
  HashIndex(const HashIndex&) = delete;
  HashIndex& operator=(const HashIndex&) = delete;

  /// Returns the node of `key`, or null.
  [[nodiscard]] KeyNode* find(const LookupKey& key) const;
  /// Like find(), for a writer that will add a version to the node: every find() that begins after the return finds the node.
  [[nodiscard]] KeyNode* find_to_write(const LookupKey& key);
  /// Adds `node`, the node of `key`. Has no effect if the index already has this node. The index must not have another node of
  /// that key.
  void add(const LookupKey& key, KeyNode* node);
  /// Starts the memory load of the bucket (stage 0), or of the node that find() would read (stage 1). Stage 1 returns true if
  /// find() would read a node; stage 0 returns false.
  bool prefetch(const LookupKey& key, int stage) const;
  /// Returns the bytes of the tables that are not in the arena.
  [[nodiscard]] std::size_t memory_bytes() const { return mapped_bytes_.load(std::memory_order_relaxed); }
  /// Returns the number of the bucket, in the current table, of a key with this hash.
  [[nodiscard]] std::size_t bucket_number(std::uint64_t hash) const {
    const Table table = table_.load(std::memory_order_acquire);
    return static_cast<std::size_t>(bucket_of(table, hash) - bucket(table, 0));
  }
  /// Number of buckets of the current table.
  [[nodiscard]] std::size_t buckets() const { return std::size_t{1} << log2_of(table_.load(std::memory_order_acquire)); }

 private:
  static constexpr int kSlots = 7;
  static constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << 48) - 1;
  struct alignas(64) Bucket {
    std::atomic<std::uint64_t> slots[kSlots];
    std::atomic<Bucket*> overflow;
  };
  static_assert(sizeof(Bucket) == 64, "one cache line");

  /// A table in one word, so that a reader loads all of it at once: the address of its buckets, with log2 of their number in the
  /// low bits.
  using Table = std::uint64_t;
  static constexpr Table kLog2Mask = 31, kGrowing = 32, kFlags = 63;
  static constexpr unsigned kGrowBits = 3;  // a table has eight times as many buckets as the table before
  static constexpr std::size_t kMaxTables = 8;
  struct Generation {
    std::atomic<Table> table{0};
    std::atomic<std::size_t> overflows{0};  // number of overflow buckets, which shows how full the table is
    // Number of buckets that threads have begun, and finished, to move to the next table.
    std::atomic<std::size_t> claimed{0}, moved{0};
  };

  static unsigned log2_of(Table table) { return table & kLog2Mask; }
  static Table without_growing(Table table) { return table & ~kGrowing; }
  static Bucket* bucket(Table table, std::size_t number) { return reinterpret_cast<Bucket*>(table & ~kFlags) + number; }
  /// Returns the bucket of a key. Clients know the hash function, so with the hash's own bits they could choose many keys of
  /// one bucket. So the hash is multiplied by a secret odd number: two different hashes then get the same bucket with a
  /// probability of at most 2 / buckets (Dietzfelbinger et al., 1997, multiply-shift).
  [[nodiscard]] Bucket* bucket_of(Table table, std::uint64_t hash) const {
    return bucket(table, (hash * multiplier_) >> (64 - log2_of(table)));
  }
  static std::uint64_t tag_of(std::uint64_t hash) { return hash & ~kAddressMask; }
  static KeyNode* node_of(std::uint64_t slot) { return reinterpret_cast<KeyNode*>(slot & kAddressMask); }
  [[nodiscard]] std::size_t number_of(Table table) const { return (log2_of(table) - first_log2_) / kGrowBits; }
  [[nodiscard]] Table older_than(Table table) const;
  KeyNode* find_in(Table table, const LookupKey& key) const;
  void add_to(Table table, std::uint64_t hash, KeyNode* node);
  Bucket* overflow_of(Bucket* bucket, Generation& generation);
  void grow_if_full(Table table);
  void move_some(Table to);
  Table make_table(unsigned log2);

  std::atomic<Table> table_{0};  // the current table
  const std::uint64_t multiplier_;
  Arena& arena_;
  const unsigned last_log2_, first_log2_;
  std::atomic<bool> growing_{false};  // true from before a new table is made until its last bucket has moved
  std::atomic<std::size_t> mapped_bytes_{0};
  std::array<Generation, kMaxTables> generations_;
};

}  // namespace ebbtide
