#include "iter/merging_iterator.h"

#include <algorithm>
#include <utility>

#include "base/coding.h"
#include "base/invariant.h"

namespace ebbtide {

MergingIterator::MergingIterator(std::vector<std::unique_ptr<InternalIterator>> children, std::size_t shared_prefix)
    : children_(std::move(children)),
      leaves_(children_.size()),
      tree_(std::max<std::size_t>(children_.size(), 1)),
      shared_prefix_(shared_prefix) {
  for (std::size_t i = 0; i < children_.size(); ++i) leaves_[i].it = children_[i].get();
}

void MergingIterator::load(std::size_t i) {
  Leaf& leaf = leaves_[i];
  live_ -= leaf.live ? 1 : 0;
  leaf.live = leaf.it->valid();
  live_ += leaf.live ? 1 : 0;
  if (leaf.live) [[likely]] {
    leaf.prefix = key_word(leaf.it->entry().key, shared_prefix_);
  } else {
    leaf.prefix = forward_ ? ~std::uint64_t{0} : 0;
    if (status_.is_ok() && !leaf.it->status().is_ok()) status_ = leaf.it->status();
  }
}

bool MergingIterator::before(std::uint32_t a, std::uint32_t b) const {
  const Leaf& left = leaves_[a];
  const Leaf& right = leaves_[b];
  if (left.prefix != right.prefix) [[likely]]
    return (left.prefix < right.prefix) == forward_;
  return before_tied(left, right);
}

bool MergingIterator::before_tied(const Leaf& a, const Leaf& b) const {
  if (!a.live || !b.live) return a.live;
  const Entry& left = a.it->entry();
  const Entry& right = b.it->entry();
  return forward_ ? version_before(left.key, left.seq, right.key, right.seq)
                  : version_before(right.key, right.seq, left.key, left.seq);
}

std::uint32_t MergingIterator::build_node(std::size_t node) {
  const std::size_t k = leaves_.size();
  if (node >= k) return static_cast<std::uint32_t>(node - k);
  const std::uint32_t left = build_node(2 * node);
  const std::uint32_t right = build_node(2 * node + 1);
  const bool left_wins = before(left, right);
  tree_[node] = left_wins ? right : left;
  return left_wins ? left : right;
}

void MergingIterator::build() {
  status_ = Status::ok();
  for (std::size_t i = 0; i < leaves_.size(); ++i) load(i);
  if (!leaves_.empty()) tree_[0] = build_node(1);
  settle();
}

/// Plays the matches on the winner's path to the root again, after the winner has moved.
void MergingIterator::replay() {
  std::uint32_t winner = tree_[0];
  load(winner);
  for (std::size_t node = (leaves_.size() + winner) / 2; node >= 1; node /= 2) {
    if (before(tree_[node], winner)) std::swap(tree_[node], winner);
  }
  tree_[0] = winner;
  settle();
}

void MergingIterator::settle() {
  valid_ = status_.is_ok() && !leaves_.empty() && leaves_[tree_[0]].live;
  if (valid_) shown_ = &leaves_[tree_[0]].it->entry();
}

void MergingIterator::seek_to_first() {
  forward_ = true;
  for (auto& child : children_) child->seek_to_first();
  build();
}

void MergingIterator::seek_to_last() {
  forward_ = false;
  for (auto& child : children_) child->seek_to_last();
  build();
}

void MergingIterator::seek(Bytes key) {
  pivot_.assign(key);  // `key` may be a view of a child that is about to move
  forward_ = true;
  for (auto& child : children_) child->seek(pivot_);
  build();
}

void MergingIterator::seek_before(Bytes key) {
  pivot_.assign(key);
  forward_ = false;
  for (auto& child : children_) child->seek_before(pivot_);
  build();
}

bool MergingIterator::wins_alone() {
  const InternalIterator& winner = *leaves_[tree_[0]].it;
  if (live_ != 1 || !winner.valid()) return false;
  shown_ = &winner.entry();
  return true;
}

void MergingIterator::next() {
  DEBUG_ASSERT(valid_);
  if (!forward_) [[unlikely]]
    return turn_forward();
  leaves_[tree_[0]].it->next();
  if (!wins_alone()) replay();
}

void MergingIterator::prev() {
  DEBUG_ASSERT(valid_);
  if (forward_) [[unlikely]]
    return turn_backward();
  leaves_[tree_[0]].it->prev();
  if (!wins_alone()) replay();
}

/// Moves every child to its first entry after the current entry.
void MergingIterator::turn_forward() {
  pivot_.assign(entry().key);
  const SeqNum seq = entry().seq;
  forward_ = true;
  for (auto& child : children_) {
    if (!child->valid()) {
      if (child->status().is_ok()) child->seek_to_first();
    }
    while (child->valid() && !version_before(pivot_, seq, child->entry().key, child->entry().seq)) child->next();
  }
  build();
}

/// Moves every child to its last entry before the current entry.
void MergingIterator::turn_backward() {
  pivot_.assign(entry().key);
  const SeqNum seq = entry().seq;
  forward_ = false;
  for (auto& child : children_) {
    if (!child->valid()) {
      if (child->status().is_ok()) child->seek_to_last();
    }
    while (child->valid() && !version_before(child->entry().key, child->entry().seq, pivot_, seq)) child->prev();
  }
  build();
}

void MergingIterator::skip_older(std::size_t age, Bytes key) {
  ASSERT(forward_);
  pivot_.assign(key);
  for (std::size_t i = age + 1; i < children_.size(); ++i) {
    InternalIterator& child = *children_[i];
    if (!child.valid() || (!pivot_.empty() && child.entry().key >= Bytes(pivot_))) continue;
    if (!pivot_.empty()) {
      child.seek(pivot_);
    } else {
      child.seek_to_last();
      if (child.valid()) child.next();
    }
  }
  build();
}

void MergingIterator::skip_older_backward(std::size_t age, Bytes key) {
  ASSERT(!forward_);
  pivot_.assign(key);
  for (std::size_t i = age + 1; i < children_.size(); ++i) {
    InternalIterator& child = *children_[i];
    if (child.valid() && child.entry().key >= Bytes(pivot_)) child.seek_before(pivot_);
  }
  build();
}

}  // namespace ebbtide
