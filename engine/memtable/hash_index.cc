#include "memtable/hash_index.h"

#include <algorithm>
#include <bit>
#include <new>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/system_memory.h"

namespace ebbtide {
namespace {
constexpr std::size_t kKeysPerBucket = 4;
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / the golden ratio: the multiplier if no seed was set
constexpr unsigned kMinLog2 = 3, kMaxLog2 = 26;
constexpr std::size_t kMappedBytes = std::size_t{64} << 10;  // tables of this size or more are mapped, not in the arena
// Bytes of a node that are prefetched: the key, and a first version with a value of 100 bytes.
constexpr std::size_t kNodeAhead = 192;
// A table grows when one bucket in 16 has an overflow bucket, which is at about four keys a bucket.
constexpr std::size_t kOverflowShare = 16;
// Number of buckets that one add() moves. The move of a table of n buckets begins at about 4 n keys, and ends after n / 2
// further keys.
constexpr std::size_t kMoveStep = 2;

unsigned last_log2(std::size_t expected_keys) {
  const auto log2 =
      static_cast<unsigned>(std::bit_width(std::bit_ceil(std::max<std::size_t>(expected_keys / kKeysPerBucket, 1))) - 1);
  return std::clamp(log2, kMinLog2 + 1, kMaxLog2);
}
}  // namespace

HashIndex::HashIndex(std::size_t expected_keys, Arena& arena)
    : multiplier_((hash_table_seed() ^ kGolden) | 1),
      arena_(arena),
      last_log2_(last_log2(expected_keys)),
      first_log2_(kMinLog2 + (last_log2_ - kMinLog2) % kGrowBits) {
  static_assert((kMaxLog2 - kMinLog2) / kGrowBits < kMaxTables);
  const Table table = make_table(first_log2_);
  generations_[0].table.store(table, std::memory_order_relaxed);
  table_.store(table, std::memory_order_release);
}

HashIndex::~HashIndex() {
  for (const Generation& generation : generations_) {
    const Table table = generation.table.load(std::memory_order_relaxed);
    const std::size_t bytes = sizeof(Bucket) << log2_of(table);
    if (table != 0 && bytes >= kMappedBytes) unmap_memory(bucket(table, 0), bytes);
  }
}

/// Makes an empty table; returns 0 if the system has no memory for it.
HashIndex::Table HashIndex::make_table(unsigned log2) {
  const std::size_t buckets = std::size_t{1} << log2, bytes = buckets * sizeof(Bucket);
  Bucket* table = nullptr;
  if (bytes < kMappedBytes) {
    // The arena aligns to 8 bytes; a bucket needs a cache line of its own.
    const auto raw = reinterpret_cast<std::uintptr_t>(arena_.allocate(bytes + alignof(Bucket) - 8));
    table = reinterpret_cast<Bucket*>((raw + alignof(Bucket) - 1) & ~(alignof(Bucket) - 1));
    for (std::size_t i = 0; i < buckets; ++i) new (table + i) Bucket{};
  } else {
    table = static_cast<Bucket*>(map_memory(bytes));  // an empty bucket is all zeros
    if (table == nullptr) return 0;
    mapped_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  return reinterpret_cast<Table>(table) | log2;
}

HashIndex::Table HashIndex::older_than(Table table) const {
  return generations_[number_of(table) - 1].table.load(std::memory_order_acquire);
}

[[gnu::always_inline]] inline KeyNode* HashIndex::find_in(Table table, const LookupKey& key) const {
  const std::uint64_t tag = tag_of(key.hash);
  for (const Bucket* b = bucket_of(table, key.hash); b != nullptr; b = b->overflow.load(std::memory_order_acquire)) {
    for (const auto& place : b->slots) {
      const std::uint64_t slot = place.load(std::memory_order_acquire);
      if (slot == 0) return nullptr;
      if ((slot & ~kAddressMask) != tag) continue;
      KeyNode* node = node_of(slot);
      if (node->has(key.key)) return node;
    }
  }
  return nullptr;
}

KeyNode* HashIndex::find(const LookupKey& key) const {
  const Table table = table_.load(std::memory_order_acquire);
  KeyNode* const node = find_in(table, key);
  if (node != nullptr || (table & kGrowing) == 0) [[likely]]
    return node;
  return find_in(older_than(table), key);
}

KeyNode* HashIndex::find_to_write(const LookupKey& key) {
  const Table table = table_.load(std::memory_order_acquire);
  KeyNode* node = find_in(table, key);
  if (node != nullptr) {
    if (without_growing(table_.load(std::memory_order_seq_cst)) != without_growing(table)) [[unlikely]]
      add(key, node);
  } else if ((table & kGrowing) != 0) [[unlikely]] {
    node = find_in(older_than(table), key);
    if (node != nullptr) add(key, node);
  }
  return node;
}

void HashIndex::add(const LookupKey& key, KeyNode* node) {
  for (Table table = table_.load(std::memory_order_acquire);;) {
    add_to(table, key.hash, node);
    const Table now = table_.load(std::memory_order_seq_cst);
    if (without_growing(now) == without_growing(table)) {
      if ((now & kGrowing) != 0) [[unlikely]]
        move_some(now);
      return;
    }
    table = now;
  }
}

void HashIndex::add_to(Table table, std::uint64_t hash, KeyNode* node) {
  const auto address = reinterpret_cast<std::uint64_t>(node);
  ASSERT((address & ~kAddressMask) == 0);
  const std::uint64_t mine = tag_of(hash) | address;
  for (Bucket* b = bucket_of(table, hash);;) {
    for (auto& place : b->slots) {
      std::uint64_t slot = place.load(std::memory_order_acquire);
      if (slot == 0 && place.compare_exchange_strong(slot, mine, std::memory_order_seq_cst, std::memory_order_acquire)) return;
      if (slot == mine) return;  // another writer of the same key added the node, or a move did
    }
    Bucket* next = b->overflow.load(std::memory_order_acquire);
    if (next == nullptr) {
      next = overflow_of(b, generations_[number_of(table)]);
      grow_if_full(table);
    }
    b = next;
  }
}

HashIndex::Bucket* HashIndex::overflow_of(Bucket* bucket, Generation& generation) {
  const auto raw = reinterpret_cast<std::uintptr_t>(arena_.allocate(sizeof(Bucket) + alignof(Bucket) - 8));
  auto* fresh = new (reinterpret_cast<void*>((raw + alignof(Bucket) - 1) & ~(alignof(Bucket) - 1))) Bucket{};
  Bucket* next = nullptr;
  if (!bucket->overflow.compare_exchange_strong(next, fresh, std::memory_order_seq_cst, std::memory_order_acquire)) return next;
  generation.overflows.fetch_add(1, std::memory_order_relaxed);
  return fresh;
}

void HashIndex::grow_if_full(Table table) {
  table = without_growing(table);
  const std::size_t number = number_of(table), buckets = std::size_t{1} << log2_of(table);
  if (log2_of(table) == last_log2_ || generations_[number].overflows.load(std::memory_order_relaxed) <= buckets / kOverflowShare)
    return;
  if (table_.load(std::memory_order_acquire) != table || growing_.exchange(true, std::memory_order_acq_rel)) return;
  // If another thread has grown the table in between, `table` is no longer the current table.
  const Table next = table_.load(std::memory_order_acquire) == table ? make_table(log2_of(table) + kGrowBits) : 0;
  if (next == 0) {
    growing_.store(false, std::memory_order_release);
    return;
  }
  generations_[number + 1].table.store(next, std::memory_order_release);
  table_.store(next | kGrowing, std::memory_order_seq_cst);
}

void HashIndex::move_some(Table to) {
  const Table from = older_than(to);
  Generation& generation = generations_[number_of(from)];
  const std::size_t buckets = std::size_t{1} << log2_of(from);
  if (generation.claimed.load(std::memory_order_relaxed) >= buckets) return;
  const std::size_t begin = generation.claimed.fetch_add(kMoveStep, std::memory_order_relaxed);
  if (begin >= buckets) return;
  const std::size_t end = std::min(begin + kMoveStep, buckets);
  for (std::size_t i = begin; i < end; ++i) {
    for (const auto& place : bucket(from, i)->slots) {
      const std::uint64_t slot = place.load(std::memory_order_relaxed);
      if (slot == 0) break;
      __builtin_prefetch(node_of(slot));
    }
  }
  for (std::size_t i = begin; i < end; ++i) {
    bool more = true;
    for (const Bucket* b = bucket(from, i); b != nullptr && more; b = b->overflow.load(std::memory_order_seq_cst)) {
      for (const auto& place : b->slots) {
        const std::uint64_t slot = place.load(std::memory_order_seq_cst);
        more = slot != 0;
        if (!more) break;
        add_to(to, hash_key(node_of(slot)->key()), node_of(slot));
      }
    }
  }
  if (generation.moved.fetch_add(end - begin, std::memory_order_acq_rel) + (end - begin) != buckets) return;
  // Only the thread that moved the last bucket gets here, and growing_ keeps other threads from growing the table.
  table_.store(without_growing(to), std::memory_order_seq_cst);
  growing_.store(false, std::memory_order_release);
}

bool HashIndex::prefetch(const LookupKey& key, int stage) const {
  const Bucket* b = bucket_of(table_.load(std::memory_order_acquire), key.hash);
  if (stage == 0) {
    __builtin_prefetch(b);
    return false;
  }
  const std::uint64_t tag = tag_of(key.hash);
  for (const auto& place : b->slots) {
    const std::uint64_t slot = place.load(std::memory_order_relaxed);
    if (slot == 0) return false;
    if ((slot & ~kAddressMask) != tag) continue;
    const char* const node = reinterpret_cast<const char*>(node_of(slot));
    for (std::size_t at = 0; at < kNodeAhead; at += 64) __builtin_prefetch(node + at);
    return true;
  }
  return false;
}

}  // namespace ebbtide
