// One node of the B+ tree: a header of one cache line, then words, keys and, in inner nodes, children.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "base/coding.h"
#include "memtable/btree.h"

namespace ebbtide {

/// Readers read fields while a writer changes them, and use the result only if unchanged(version) is true afterwards. Even a
/// reader that sees fields of different states is safe: indexes are below kSlots, and keys[i] for i < count are valid pointers.
struct alignas(64) BTreeNode {
  static constexpr std::size_t kSlots = BTree::kSlots;
  static constexpr std::size_t kCommonWords = 5;

  std::atomic<std::uint64_t> version{0};  // odd while the node is locked
  std::atomic<std::uint16_t> count{0};
  std::atomic<std::uint16_t> skip{0};  // number of bytes that all keys of the node begin with; at most 8 * kCommonWords
  const bool leaf;
  std::atomic<BTreeNode*> next{nullptr};                          // the leaf to the right; null in inner nodes
  std::array<std::atomic<std::uint64_t>, kCommonWords> common{};  // the first `skip` bytes of every key, followed by zeros
  std::array<std::atomic<std::uint64_t>, kSlots> words{};         // for each key: key_word(key, skip)
  std::array<std::atomic<KeyNode*>, kSlots> keys{};  // ascending; the child children[i + 1] of an inner node begins at keys[i]

  explicit BTreeNode(bool is_leaf) : leaf(is_leaf) {}

  // --- versions
  [[nodiscard]] std::uint64_t begin_read() const {
    for (unsigned spins = 0;; spins++) {
      const std::uint64_t v = version.load(std::memory_order_acquire);
      if ((v & 1) == 0) return v;
      if (spins > 100) std::this_thread::yield();  // the writer's thread has probably lost its processor
    }
  }
  [[nodiscard]] bool unchanged(std::uint64_t v) const { return version.load(std::memory_order_acquire) == v; }
  [[nodiscard]] bool try_lock(std::uint64_t v) {
    return version.compare_exchange_strong(v, v + 1, std::memory_order_acq_rel, std::memory_order_relaxed);
  }
  void unlock() { version.store(version.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  // --- reading
  [[nodiscard]] std::size_t size() const { return count.load(std::memory_order_acquire); }
  [[nodiscard]] bool full() const { return size() == kSlots; }
  [[nodiscard]] KeyNode* key(std::size_t i) const { return keys[i].load(std::memory_order_acquire); }
  void prefetch() const {
    const auto* line = reinterpret_cast<const char*>(words.data());
    for (std::size_t i = 0; i < sizeof(words); i += 64) __builtin_prefetch(line + i);
  }
  /// Compares the first `skip` bytes of `key`, padded with zeros, with the common prefix: returns < 0, 0 or > 0.
  [[nodiscard]] int compare_common(Bytes key) const {
    const std::size_t bytes = skip.load(std::memory_order_acquire);
    for (std::size_t i = 0; i * 8 < bytes; i++) {
      std::uint64_t mine = key_word(key, i * 8);
      const std::size_t left = bytes - i * 8;
      if (left < 8) mine &= ~std::uint64_t{0} << (64 - 8 * left);
      const std::uint64_t theirs = common[i].load(std::memory_order_acquire);
      if (mine != theirs) return mine < theirs ? -1 : 1;
    }
    return 0;
  }
  /// Returns how many of the first n words are smaller than `word`.
  [[nodiscard]] std::size_t words_below(std::uint64_t word, std::size_t n) const {
    if (n == 0) return 0;
    std::size_t base = 0;
    while (n > 1) {  // no branch depends on a comparison
      const std::size_t half = n / 2;
      base += words[base + half - 1].load(std::memory_order_acquire) < word ? half : 0;
      n -= half;
    }
    return base + (words[base].load(std::memory_order_acquire) < word ? 1 : 0);
  }
  /// Returns the number of keys less than `target`. Sets `equal` to true if the next key equals `target`.
  [[nodiscard]] std::size_t lower_bound(Bytes target, bool* equal) const {
    *equal = false;
    const std::size_t n = size();
    if (const int order = compare_common(target); order != 0) return order < 0 ? 0 : n;
    const std::uint64_t word = key_word(target, skip.load(std::memory_order_acquire));
    std::size_t lo = words_below(word, n);
    std::size_t hi = lo;
    while (hi < n && words[hi].load(std::memory_order_acquire) == word) hi++;
    while (lo < hi) {  // equal words: compare the keys
      const std::size_t middle = lo + (hi - lo) / 2;
      const int order = key(middle)->key().compare(target);
      if (order == 0) {
        *equal = true;
        return middle;
      }
      if (order < 0) {
        lo = middle + 1;
      } else {
        hi = middle;
      }
    }
    return lo;
  }

  // --- writing: the caller has locked the node, or no other thread can reach the node yet
  void insert_at(std::size_t at, KeyNode* node);
  /// Extends the common prefix if all keys share at least two bytes more.
  void extend_skip();
  /// Shortens the common prefix so that `key`, too, begins with it.
  void shrink_skip_for(Bytes key);
  /// Copies keys [from, size) to the start of the empty node `to`.
  void copy_tail(std::size_t from, BTreeNode* to) const;
};

struct BTreeInner : BTreeNode {
  std::array<std::atomic<BTreeNode*>, kSlots + 1> children{};
  BTreeInner() : BTreeNode(false) {}
};

static_assert(offsetof(BTreeNode, words) == 64, "the header is one cache line");

}  // namespace ebbtide
