// A k-way merge of iterators, forward and backward.
//
// The k children play in a loser tree (tournament tree): each of the nodes 1..k-1 stores the child that lost there, node 0 the
// overall winner. When the winner advances, only the matches on its path to the root are played again. So a step costs
// ceil(log2 k) comparisons, and none for k = 1. A binary heap needs up to twice as many comparisons; a sorted array is cheaper
// only while one child wins many times in a row.
//
// A comparison rarely reads the keys: each child caches eight bytes of its current key as a big-endian number. Keys of one
// merge often begin alike ("user:0000..."), so the cached bytes begin after the prefix that the caller knows all keys to share.
//
// (key, seq) is unique among the children, so there are no ties. Invariant between calls, with E the current entry: after a
// forward move, every child but the winner is at its first entry after E. After a backward move, it is at its last entry before
// E. When the direction changes, each child moves by one step (by a few, if a memtable grew meanwhile); only a child past its end
// seeks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "iter/internal_iterator.h"

namespace ebbtide {

class MergingIterator final : public InternalIterator {
 public:
  /// The children are ordered by age, newest first; the order matters only for skip_older() and skip_older_backward().
  /// `shared_prefix`: the number of leading bytes that all keys are known to have in common; 0 is always correct.
  explicit MergingIterator(std::vector<std::unique_ptr<InternalIterator>> children, std::size_t shared_prefix = 0);

  void seek_to_first() override;
  void seek_to_last() override;
  void seek(Bytes key) override;
  void seek_before(Bytes key) override;
  void next() override;
  void prev() override;

  /// Moves each child older than child `age` that is before `key` forward to `key` ("" = to the child's end). The current entry
  /// is then the smallest of all children; it may be the same as before. Call this only after a forward move (seek, seek_to_first
  /// or next). For a range tombstone of child `age` that ends at `key`: it covers everything that older children have in its
  /// range.
  void skip_older(std::size_t age, Bytes key);
  /// Like skip_older(), after a backward move: moves each child older than child `age` that is at or after `key` back to its
  /// last entry before `key`.
  void skip_older_backward(std::size_t age, Bytes key);

  /// The index (age) of the child that has the current entry. Requires valid().
  [[nodiscard]] std::size_t child() const { return tree_[0]; }
  [[nodiscard]] std::size_t children() const { return children_.size(); }

 private:
  struct Leaf {
    InternalIterator* it = nullptr;
    std::uint64_t prefix = 0;
    bool live = false;  ///< true if the child is at an entry
  };

  void load(std::size_t i);
  [[nodiscard]] bool before(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] bool before_tied(const Leaf& a, const Leaf& b) const;
  void build();
  std::uint32_t build_node(std::size_t node);
  void replay();
  void settle();
  void turn_forward();
  void turn_backward();
  /// Returns true if the winner, which has just moved, wins without a match, since no other child is at an entry.
  bool wins_alone();

  std::vector<std::unique_ptr<InternalIterator>> children_;
  std::vector<Leaf> leaves_;
  std::vector<std::uint32_t> tree_;  ///< [0] is the winner, [i] the loser at inner node i; leaf j is at node k + j
  std::size_t shared_prefix_;
  std::size_t live_ = 0;  ///< number of live leaves
  bool forward_ = true;
  std::string pivot_;
};

}  // namespace ebbtide
