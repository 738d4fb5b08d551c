// An ordered index of keys: a B+ tree for many concurrent writers and readers, insert-only. It uses optimistic lock coupling
// (Leis et al., "The ART of Practical Synchronization", 2016).
//
// A B+ tree is faster than a skiplist. A skiplist's descent reads about twenty nodes one after the other. Here it reads three or
// four wide nodes, whose cache lines are fetched together. Keys are compared as 8-byte words in the node; a key itself is read
// only if words are equal.
//   * Each node stores the common prefix of its keys (up to 40 bytes) once, in its header. So the word of "user:000012345" has
//     bytes that differ between neighbours, not "user:000".
//   * Words are ordered like keys that are padded with zeros. If words are equal, the keys are compared.
//
// Locking: a node's version is odd while a writer holds the node. Readers note the version, read, and start over if the version
// has changed; writers turn an unchanged version odd. All fields are atomics, loaded with acquire and stored with release: a
// reader that sees a field of a later state also sees the odd version. Nodes are never freed and separators are keys of the tree,
// so that:
//   * a leaf whose lower separator is s contains s. So if separators < `key` lead to a leaf, that leaf has the last key before
//     `key`;
//   * a cursor copies a leaf and reads the copy; the copied link leads to the leaf after the copy, even if the leaf is split
//     later.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/arena.h"
#include "memtable/key_node.h"

namespace ebbtide {

struct BTreeNode;

/// Thread-safe.
class BTree {
 public:
  /// Capacity of a node in keys. 64 words are 8 cache lines, loaded in parallel.
  static constexpr std::size_t kSlots = 64;

  /// Nodes are allocated from `arena`, which must outlive the tree.
  explicit BTree(Arena& arena);
  BTree(const BTree&) = delete;
  BTree& operator=(const BTree&) = delete;

  /// Adds `node` and returns it, or returns the existing node of the same key.
  KeyNode* insert(KeyNode* node);

  /// A position in the tree: at a key, or past either end (node() is null). A cursor may or may not show keys that are added
  /// while it is open.
  class Cursor {
   public:
    explicit Cursor(const BTree* tree) : tree_(tree) {}
    [[nodiscard]] KeyNode* node() const { return at_ < count_ ? keys_[at_] : nullptr; }
    void seek_to_first();
    void seek_to_last();
    /// The first key >= key.
    void seek(Bytes key);
    /// The last key < key.
    void seek_before(Bytes key);
    /// next() and prev() require that node() is not null.
    void next();
    void prev();

   private:
    friend class BTree;
    void enter(const BTreeNode* leaf);        // copies the leaf; the cursor is at the leaf's first key
    static constexpr std::size_t kAhead = 6;  // number of keys ahead of the cursor whose loads are started early

    const BTree* tree_;
    const BTreeNode* next_leaf_ = nullptr;
    std::size_t at_ = 0, count_ = 0;
    std::array<KeyNode*, kSlots> keys_;
  };

 private:
  friend class Cursor;
  enum class Outcome : std::uint8_t { kDone, kRetry };
  Outcome try_insert(KeyNode* node, KeyNode** there);
  Outcome try_split(BTreeNode* parent, std::uint64_t parent_version, BTreeNode* node, std::uint64_t version, bool appending);
  Outcome try_seek(const Bytes* key, bool before, Cursor* cursor) const;
  BTreeNode* make_node(bool leaf);

  Arena& arena_;
  std::atomic<BTreeNode*> root_;
};

}  // namespace ebbtide
