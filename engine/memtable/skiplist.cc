#include "memtable/skiplist.h"

namespace ebbtide {
namespace {

bool before(const SkipNode* node, Bytes key, std::uint64_t prefix) {
  return node->prefix != prefix ? node->prefix < prefix : node->key->key() < key;
}

int height_of(std::uint64_t hash, int max) {
  int height = 1;  // one node in four goes up; the hash is as good as a coin and repeats
  for (std::uint64_t bits = hash * 0x9e3779b97f4a7c15U; height < max && (bits >> 62) == 0; bits <<= 2) height++;
  return height;
}

}  // namespace

SkipList::SkipList(Arena& arena) : arena_(arena), head_(make(nullptr, kMaxHeight)) {}

SkipNode* SkipList::make(KeyNode* key, int height) {
  char* memory = arena_.allocate(sizeof(SkipNode) + static_cast<std::size_t>(height - 1) * sizeof(std::atomic<SkipNode*>));
  auto* node = reinterpret_cast<SkipNode*>(memory);
  node->key = key;
  node->prefix = key == nullptr ? 0 : key_prefix(key->key());
  for (int i = 0; i < height; i++) new (&node->next[i]) std::atomic<SkipNode*>(nullptr);
  return node;
}

KeyNode* SkipList::insert(KeyNode* key_node, std::uint64_t hash) {
  const Bytes key = key_node->key();
  const std::uint64_t prefix = key_prefix(key);
  SkipNode* before_it[kMaxHeight];
  SkipNode* after_it[kMaxHeight];
  SkipNode* x = head_;
  for (int level = kMaxHeight - 1; level >= 0; level--) {
    for (;;) {
      SkipNode* next = x->next[level].load(std::memory_order_acquire);
      if (next == nullptr || !before(next, key, prefix)) {
        before_it[level] = x;
        after_it[level] = next;
        break;
      }
      x = next;
    }
  }
  SkipNode* node = nullptr;
  const int height = height_of(hash, kMaxHeight);
  for (int level = 0; level < height; level++) {
    for (;;) {
      SkipNode* after = after_it[level];
      if (level == 0 && after != nullptr && after->key->key() == key) return after->key;
      if (node == nullptr) node = make(key_node, height);
      node->next[level].store(after, std::memory_order_relaxed);
      if (before_it[level]->next[level].compare_exchange_strong(after, node, std::memory_order_release,
                                                                std::memory_order_acquire))
        break;
      while (after != nullptr && before(after, key, prefix)) {  // somebody came in between
        before_it[level] = after;
        after = after->next[level].load(std::memory_order_acquire);
      }
      after_it[level] = after;
    }
  }
  return key_node;
}

const SkipNode* SkipList::last_before(const Bytes* key) const {
  const std::uint64_t prefix = key == nullptr ? 0 : key_prefix(*key);
  const SkipNode* x = head_;
  for (int level = kMaxHeight - 1; level >= 0; level--) {
    for (;;) {
      const SkipNode* next = x->next[level].load(std::memory_order_acquire);
      if (next == nullptr || (key != nullptr && !before(next, *key, prefix))) break;
      x = next;
    }
  }
  return x == head_ ? nullptr : x;
}

void SkipList::Cursor::seek(Bytes key) {
  const SkipNode* x = list_->last_before(&key);
  if (x == nullptr) x = list_->head_;
  at_ = x->next[0].load(std::memory_order_acquire);
  const std::uint64_t prefix = key_prefix(key);
  while (at_ != nullptr && before(at_, key, prefix)) at_ = at_->next[0].load(std::memory_order_acquire);  // came in meanwhile
}

}  // namespace ebbtide
