#include "memtable/hash_index.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>

#include "base/invariant.h"

namespace ebbtide {
namespace {
constexpr std::size_t kKeysPerBucket = 4;
constexpr std::size_t kMinBuckets = 16;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kNodeAhead = 192;  // of a node: the key, and a first version with a value of 100 bytes
}  // namespace

HashIndex::HashIndex(std::size_t expected_keys, Arena& arena)
    : arena_(arena), mask_(std::max(kMinBuckets, std::bit_ceil(expected_keys / kKeysPerBucket)) - 1) {
  // Mapped, not allocated: zeroed by the system page by page when touched, so a memtable of few keys pays for few pages.
  void* memory = ::mmap(nullptr, memory_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (memory_bytes() >= kHugePage) ::madvise(memory, memory_bytes(), MADV_HUGEPAGE);
#endif
  buckets_ = static_cast<Bucket*>(memory);  // all-zero is what an empty bucket is
}

HashIndex::~HashIndex() { ::munmap(buckets_, memory_bytes()); }

KeyNode* HashIndex::find(const LookupKey& key) const {
  const std::uint64_t tag = tag_of(key.hash);
  for (const Bucket* b = bucket(key.hash); b != nullptr; b = b->overflow.load(std::memory_order_acquire)) {
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

void HashIndex::add(const LookupKey& key, KeyNode* node) {
  const auto address = reinterpret_cast<std::uint64_t>(node);
  ASSERT((address & ~kAddressMask) == 0);
  const std::uint64_t mine = tag_of(key.hash) | address;
  for (Bucket* b = bucket(key.hash);; b = overflow_of(b)) {
    for (auto& place : b->slots) {
      std::uint64_t slot = place.load(std::memory_order_relaxed);
      if (slot == 0 && place.compare_exchange_strong(slot, mine, std::memory_order_release, std::memory_order_relaxed)) return;
      if (slot == mine) return;  // who lost the race for the ordered index added it for us
    }
  }
}

HashIndex::Bucket* HashIndex::overflow_of(Bucket* bucket) {
  Bucket* next = bucket->overflow.load(std::memory_order_acquire);
  if (next != nullptr) return next;
  // The arena aligns to 8; a bucket wants its own line.
  const auto raw = reinterpret_cast<std::uintptr_t>(arena_.allocate(sizeof(Bucket) + alignof(Bucket) - 8));
  auto* fresh = new (reinterpret_cast<void*>((raw + alignof(Bucket) - 1) & ~(alignof(Bucket) - 1))) Bucket{};
  if (bucket->overflow.compare_exchange_strong(next, fresh, std::memory_order_acq_rel, std::memory_order_acquire)) return fresh;
  return next;
}

bool HashIndex::prefetch(const LookupKey& key, int stage) const {
  const Bucket* b = bucket(key.hash);
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
