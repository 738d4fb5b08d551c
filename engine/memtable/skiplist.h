// Keys in order: a skiplist for many writers and readers, without locks (Pugh 1990; insert-only form as in LevelDB, linked by
// compare-and-swap). A node carries the first 8 bytes of its key, so that most comparisons read no key.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/arena.h"
#include "memtable/key_node.h"

namespace ebbtide {

struct SkipNode {
  std::uint64_t prefix;
  KeyNode* key;
  std::atomic<SkipNode*> next[1];  // as many as the node is high
};

class SkipList {
 public:
  explicit SkipList(Arena& arena);

  /// Adds `node`, or returns the node of the same key that is there already.
  KeyNode* insert(KeyNode* node, std::uint64_t hash);

  class Cursor {
   public:
    explicit Cursor(const SkipList* list) : list_(list) {}
    /// Null at either end.
    [[nodiscard]] KeyNode* node() const { return at_ == nullptr ? nullptr : at_->key; }
    void seek_to_first() { at_ = list_->head_->next[0].load(std::memory_order_acquire); }
    void seek_to_last() { at_ = list_->last_before(nullptr); }
    void seek(Bytes key);
    void seek_before(Bytes key) { at_ = list_->last_before(&key); }
    void next() { at_ = at_->next[0].load(std::memory_order_acquire); }
    void prev() { seek_before(at_->key->key()); }

   private:
    const SkipList* list_;
    const SkipNode* at_ = nullptr;
  };

 private:
  friend class Cursor;
  static constexpr int kMaxHeight = 16;
  [[nodiscard]] const SkipNode* last_before(const Bytes* key) const;
  SkipNode* make(KeyNode* key, int height);

  Arena& arena_;
  SkipNode* head_;
};

}  // namespace ebbtide
