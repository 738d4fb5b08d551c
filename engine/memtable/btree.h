// Keys in order: a B+ tree for many writers and readers (optimistic lock coupling: Leis et al., "The ART of Practical
// Synchronization", 2016), insert-only.
//
// Why it beats a skiplist: a descent reads three or four wide nodes whose cache lines are fetched together, instead of some
// twenty nodes one after the other. Keys are compared as 8-byte words that lie in the node; a key itself is read only when words
// are equal.
//   * Each node leaves out what its keys have in common at their start (up to 40 bytes, kept once in the header), so that the
//     word of "user:000012345" begins where its neighbours differ, not at "user:000".
//   * Order of words is order of keys padded with zeros; equal words decide nothing, then the keys are compared.
//
// Locking: a node's version is odd while a writer has it. Readers note the version, read, and start over if it has changed;
// writers turn an unchanged version odd. All fields are atomics, loaded with acquire and stored with release: a reader that sees
// a field of a later state sees the odd version, too. Nodes are never freed and separators are keys of the tree, so that:
//   * a leaf whose lower fence is s contains s: the last key before `key` is always in the leaf that the fences < `key` lead to;
//   * a cursor copies a leaf and walks the copy; the copied link leads to where the copy ends, whatever was split since.
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
  /// Keys a node has room for. 64 words are 8 cache lines, loaded side by side.
  static constexpr std::size_t kSlots = 64;

  /// Nodes come from `arena`, which must outlive the tree.
  explicit BTree(Arena& arena);
  BTree(const BTree&) = delete;
  BTree& operator=(const BTree&) = delete;

  /// Adds `node`, or returns the node of the same key that is there already.
  KeyNode* insert(KeyNode* node);

  /// A place in the tree: on a key, or past either end (node() is null). Shows keys that come in while it is open, or not.
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
    /// Both need a node().
    void next();
    void prev();

   private:
    friend class BTree;
    void enter(const BTreeNode* leaf);        // its copy, at its first key
    static constexpr std::size_t kAhead = 6;  // keys whose loads are started before the walk is there

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
