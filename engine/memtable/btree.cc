#include "memtable/btree.h"

#include <cstring>
#include <new>

#include "base/coding.h"
#include "base/invariant.h"
#include "memtable/btree_node.h"

namespace ebbtide {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kRelease = std::memory_order_release;

BTreeInner* inner(BTreeNode* node) { return static_cast<BTreeInner*>(node); }
const BTreeInner* inner(const BTreeNode* node) { return static_cast<const BTreeInner*>(node); }

}  // namespace

void BTreeNode::insert_at(std::size_t at, KeyNode* node) {
  const Bytes key_bytes = node->key();
  if (compare_common(key_bytes) != 0) shrink_skip_for(key_bytes);
  const std::size_t n = count.load(kRelaxed);
  for (std::size_t i = n; i > at; i--) {
    words[i].store(words[i - 1].load(kRelaxed), kRelease);
    keys[i].store(keys[i - 1].load(kRelaxed), kRelease);
  }
  words[at].store(key_word(key_bytes, skip.load(kRelaxed)), kRelease);
  keys[at].store(node, kRelease);
  count.store(static_cast<std::uint16_t>(n + 1), kRelease);
  // A split computes the common prefix of both halves. For a node that was never split it is computed at 4 keys, and at 16 keys.
  if (n + 1 == 4 || n + 1 == 16) extend_skip();
}

void BTreeNode::extend_skip() {
  const std::size_t n = count.load(kRelaxed);
  if (n < 2) return;
  const Bytes first = keys[0].load(kRelaxed)->key();
  const std::size_t length = std::min(common_bytes(first, keys[n - 1].load(kRelaxed)->key()), 8 * kCommonWords);
  if (length < skip.load(kRelaxed) + std::size_t{2}) return;
  for (std::size_t i = 0; i < kCommonWords; i++)
    common[i].store(i * 8 < length ? key_word(first.substr(0, length), i * 8) : 0, kRelease);
  skip.store(static_cast<std::uint16_t>(length), kRelease);
  for (std::size_t i = 0; i < n; i++) words[i].store(key_word(keys[i].load(kRelaxed)->key(), length), kRelease);
}

void BTreeNode::shrink_skip_for(Bytes key_bytes) {
  const std::size_t old_skip = skip.load(kRelaxed), n = count.load(kRelaxed);
  char bytes[8 * kCommonWords + 8];  // first bytes of a key: the common prefix, then the key's word; so no key is read
  const auto put_word = [&](std::size_t at, std::uint64_t word) {
    word = __builtin_bswap64(word);
    std::memcpy(bytes + at, &word, 8);
  };
  for (std::size_t i = 0; i < kCommonWords; i++) put_word(i * 8, common[i].load(kRelaxed));
  const std::size_t length = common_bytes(key_bytes, Bytes(bytes, old_skip));
  for (std::size_t i = 0; i < n; i++) {
    put_word(old_skip, words[i].load(kRelaxed));
    words[i].store(key_word(Bytes(bytes + length, 8)), kRelease);
  }
  for (std::size_t i = 0; i < kCommonWords; i++)
    common[i].store(i * 8 < length ? key_word(Bytes(bytes, length), i * 8) : 0, kRelease);
  skip.store(static_cast<std::uint16_t>(length), kRelease);
}

void BTreeNode::copy_tail(std::size_t from, BTreeNode* to) const {
  const std::size_t n = count.load(kRelaxed);
  for (std::size_t i = from; i < n; i++) {
    to->words[i - from].store(words[i].load(kRelaxed), kRelaxed);
    to->keys[i - from].store(keys[i].load(kRelaxed), kRelaxed);
  }
  for (std::size_t i = 0; i < kCommonWords; i++) to->common[i].store(common[i].load(kRelaxed), kRelaxed);
  to->skip.store(skip.load(kRelaxed), kRelaxed);
  to->count.store(static_cast<std::uint16_t>(n - from), kRelease);
}

BTree::BTree(Arena& arena) : arena_(arena), root_(make_node(true)) {}

BTreeNode* BTree::make_node(bool leaf) {
  const std::size_t bytes = leaf ? sizeof(BTreeNode) : sizeof(BTreeInner);
  const auto raw = reinterpret_cast<std::uintptr_t>(arena_.allocate(bytes + 56));  // the arena aligns to 8 bytes; a node needs 64
  auto* memory = reinterpret_cast<void*>((raw + 63) & ~std::uintptr_t{63});
  if (leaf) return new (memory) BTreeNode(true);
  return new (memory) BTreeInner();
}

KeyNode* BTree::insert(KeyNode* node) {
  KeyNode* there = nullptr;
  while (try_insert(node, &there) == Outcome::kRetry) {
  }
  return there;
}

BTree::Outcome BTree::try_insert(KeyNode* node, KeyNode** there) {
  const Bytes key = node->key();
  BTreeNode* parent = nullptr;
  std::uint64_t parent_version = 0;
  BTreeNode* at = root_.load(std::memory_order_acquire);
  std::uint64_t version = at->begin_read();
  if (at != root_.load(std::memory_order_acquire)) return Outcome::kRetry;
  bool equal = false;
  for (;;) {
    const std::size_t below = at->lower_bound(key, &equal);
    const std::size_t size = at->size();
    if (!at->unchanged(version)) return Outcome::kRetry;
    if (equal && at->leaf) {
      *there = at->key(below);
      return at->unchanged(version) ? Outcome::kDone : Outcome::kRetry;
    }
    // A full node is split when a search passes it, so that a later split of a child finds room for its separator here.
    if (size == kSlots) return try_split(parent, parent_version, at, version, below == size);
    if (at->leaf) {
      if (!at->try_lock(version)) return Outcome::kRetry;
      at->insert_at(below, node);
      at->unlock();
      *there = node;
      return Outcome::kDone;
    }
    BTreeNode* child = inner(at)->children[below + (equal ? 1 : 0)].load(std::memory_order_acquire);
    if (!at->unchanged(version)) return Outcome::kRetry;
    child->prefetch();
    const std::uint64_t child_version = child->begin_read();
    if (!at->unchanged(version)) return Outcome::kRetry;
    parent = at;
    parent_version = version;
    at = child;
    version = child_version;
  }
}

/// Splits a full node. Always returns kRetry, so that the insertion starts over.
BTree::Outcome BTree::try_split(BTreeNode* parent, std::uint64_t parent_version, BTreeNode* node, std::uint64_t version,
                                bool appending) {
  if (parent != nullptr && !parent->try_lock(parent_version)) return Outcome::kRetry;
  if (!node->try_lock(version)) {
    if (parent != nullptr) parent->unlock();
    return Outcome::kRetry;
  }
  // Only the thread that has locked the root replaces it.
  const bool lost_root = parent == nullptr && root_.load(std::memory_order_acquire) != node;
  if (!lost_root) {
    BTreeNode* right = make_node(node->leaf);
    // With `appending`, the left node stays full: keys that come in ascending order then leave full nodes behind.
    const std::size_t middle = appending ? kSlots - 1 : kSlots / 2;
    KeyNode* separator = node->keys[middle].load(kRelaxed);
    if (node->leaf) {
      node->copy_tail(middle, right);
      right->next.store(node->next.load(kRelaxed), kRelaxed);
      node->next.store(right, kRelease);
    } else {
      node->copy_tail(middle + 1, right);
      for (std::size_t i = middle + 1; i <= kSlots; i++) {
        inner(right)->children[i - middle - 1].store(inner(node)->children[i].load(kRelaxed), kRelease);
      }
    }
    node->count.store(static_cast<std::uint16_t>(middle), kRelease);
    right->extend_skip();
    node->extend_skip();
    if (parent == nullptr) {
      auto* root = inner(make_node(false));
      root->insert_at(0, separator);
      root->children[0].store(node, kRelease);
      root->children[1].store(right, kRelease);
      root_.store(root, kRelease);
    } else {
      bool equal = false;
      const std::size_t at = parent->lower_bound(separator->key(), &equal);
      DEBUG_ASSERT(!equal && !parent->full());
      auto& children = inner(parent)->children;
      for (std::size_t i = parent->size() + 1; i > at + 1; i--) children[i].store(children[i - 1].load(kRelaxed), kRelease);
      children[at + 1].store(right, kRelease);
      parent->insert_at(at, separator);
    }
  }
  node->unlock();
  if (parent != nullptr) parent->unlock();
  return Outcome::kRetry;
}

/// Moves the cursor to the first key >= *key, or, if `before` is true, to the last key < *key. A null key is past every key.
BTree::Outcome BTree::try_seek(const Bytes* key, bool before, Cursor* cursor) const {
  const BTreeNode* at = root_.load(std::memory_order_acquire);
  std::uint64_t version = at->begin_read();
  if (at != root_.load(std::memory_order_acquire)) return Outcome::kRetry;
  for (;;) {
    bool equal = false;
    const std::size_t below = key != nullptr ? at->lower_bound(*key, &equal) : at->size();
    if (at->leaf) {
      const std::size_t n = at->size();
      for (std::size_t i = 0; i < n; i++) cursor->keys_[i] = at->key(i);
      const BTreeNode* next = at->next.load(std::memory_order_acquire);
      if (!at->unchanged(version)) return Outcome::kRetry;
      cursor->count_ = n;
      cursor->next_leaf_ = next;
      cursor->at_ = below;
      return Outcome::kDone;
    }
    const BTreeNode* child = inner(at)->children[below + (equal && !before ? 1 : 0)].load(std::memory_order_acquire);
    if (!at->unchanged(version)) return Outcome::kRetry;
    child->prefetch();
    const std::uint64_t child_version = child->begin_read();
    if (!at->unchanged(version)) return Outcome::kRetry;
    at = child;
    version = child_version;
  }
}

void BTree::Cursor::enter(const BTreeNode* leaf) {
  at_ = 0;
  count_ = 0;
  if (leaf == nullptr) return;
  for (;;) {
    const std::uint64_t version = leaf->begin_read();
    const std::size_t n = leaf->size();
    for (std::size_t i = 0; i < n; i++) keys_[i] = leaf->key(i);
    next_leaf_ = leaf->next.load(std::memory_order_acquire);
    if (!leaf->unchanged(version)) continue;
    count_ = n;
    break;
  }
  if (next_leaf_ != nullptr) next_leaf_->prefetch();
  for (std::size_t i = 0; i < std::min(count_, kAhead); i++) __builtin_prefetch(keys_[i]);
}

void BTree::Cursor::seek(Bytes key) {
  while (tree_->try_seek(&key, false, this) == Outcome::kRetry) {
  }
  if (at_ == count_) enter(next_leaf_);
}

void BTree::Cursor::seek_to_first() { seek(Bytes()); }

void BTree::Cursor::seek_to_last() {
  while (tree_->try_seek(nullptr, true, this) == Outcome::kRetry) {
  }
  at_ = count_ == 0 ? 0 : count_ - 1;
}

void BTree::Cursor::seek_before(Bytes key) {
  while (tree_->try_seek(&key, true, this) == Outcome::kRetry) {
  }
  at_ = at_ == 0 ? count_ : at_ - 1;  // at_ == 0: no key of this leaf, and so no key of the tree, is < key (btree.h)
}

void BTree::Cursor::next() {
  if (++at_ == count_) {
    enter(next_leaf_);
  } else if (at_ + kAhead < count_) {
    __builtin_prefetch(keys_[at_ + kAhead]);
  }
}

void BTree::Cursor::prev() {
  if (at_ == 0) {
    seek_before(keys_[0]->key());
    return;
  }
  --at_;
  if (at_ >= kAhead) __builtin_prefetch(keys_[at_ - kAhead]);
}

}  // namespace ebbtide
