// An ordered index of keys: a B+ tree for many concurrent writers and readers, insert-only. It uses optimistic lock coupling
// (Leis et al., "The ART of Practical Synchronization", 2016).
//
// A B+ tree is faster than a skiplist. A search in a skiplist reads about twenty nodes one after the other. A search here reads
// three or four wide nodes, whose cache lines are fetched together. A node stores an 8-byte word of each key, and a search
// compares these words; it reads the key itself only if the words are equal.
//   * Each node stores the common prefix of its keys (up to 40 bytes) once, in its header, and a key's word follows that prefix.
//     So the word of "user:000012345" has bytes that differ between neighbours, not "user:000".
//   * Words have the order of the keys, padded with zeros. If words are equal, the keys are compared.
//
// Locking: a node's version number is odd while a writer holds the node. A reader notes the version, reads, and starts over if
// the version has changed. A writer locks a node by making the version that it has read odd; if the version has changed, it
// starts over. All fields are atomics, loaded with acquire and stored with release: a reader that sees a field of a later state
// also sees the odd version. Nodes are never freed, and separators are keys of the tree. It follows:
//   * A leaf whose lower separator is s contains s. So a search that descends by separators < `key` reaches the leaf that has the
//     last key before `key`.
//   * A cursor copies a leaf and reads the copy. The copied link leads to the leaf that follows the copied keys, even if the leaf
//     is split later.
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
  /// Most keys in a node. 64 words are 8 cache lines, loaded in parallel.
  static constexpr std::size_t kSlots = 64;

  /// Nodes are allocated from `arena`, which must outlive the tree.
  explicit BTree(Arena& arena);
  BTree(const BTree&) = delete;
  BTree& operator=(const BTree&) = delete;

  /// Adds `node` and returns it. If the tree already has a node for the key, adds nothing and returns that node.
  KeyNode* insert(KeyNode* node);

  /// A position in the tree: at a key, or past either end (node() is null). A cursor may or may not show keys that are added
  /// while it is open.
  class Cursor {
   public:
    explicit Cursor(const BTree* tree) : tree_(tree) {}
    [[nodiscard]] KeyNode* node() const { return at_ < count_ ? keys_[at_] : nullptr; }
    void seek_to_first();
    void seek_to_last();
    /// Moves to the first key >= key.
    void seek(Bytes key);
    /// Moves to the last key < key.
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
