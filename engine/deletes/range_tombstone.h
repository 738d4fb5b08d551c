// Range tombstones, cut into fragments that do not overlap, so that a key asks once.
//
// Input: tombstones that overlap as they like. Output: fragments in key order, at whose borders the set of tombstones that cover
// changes. Immutable and shared; a table builds one when opened, a memtable one per version of its set.
//
// n tombstones that lie one within the other have n^2 pairs of fragment and cover, and a client may write such: so the pairs are
// not kept. A fragment knows its newest cover, which answers all but readers of the past; for these a segment tree over the
// fragments (Bentley, 1977) has each tombstone in at most 2 log2(n) of its nodes, and the covers of a fragment are those of the
// nodes above it. Memory O(n log n), and n where nothing overlaps.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/entry.h"

namespace ebbtide {

class FragmentedRangeTombstones {
 public:
  struct Cover {
    SeqNum seq;
    Millis birth;
  };
  struct Fragment {
    std::string start;
    std::string end;      ///< "" = no upper bound (the last fragment only)
    Cover newest;         ///< of its covers
    SeqNum oldest_seq;    ///< smallest of its covers'
    Millis oldest_birth;  ///< smallest of its covers'
  };

  FragmentedRangeTombstones() = default;
  explicit FragmentedRangeTombstones(std::span<const RangeTombstone> tombstones);

  [[nodiscard]] bool empty() const { return fragments_.empty(); }
  /// The newest cover of `key` with seq <= view_seq, or null. O(log fragments) if that is the newest of all, else its square.
  [[nodiscard]] const Cover* newest_cover(Bytes key, SeqNum view_seq) const;
  /// The same of a whole fragment of this object.
  [[nodiscard]] const Cover* newest_cover(const Fragment& fragment, SeqNum view_seq) const;
  /// All covers of a fragment of this object, newest first, in place of what is in `out`.
  void covers(const Fragment& fragment, std::vector<Cover>* out) const;
  /// The fragment that contains `key`, or null.
  [[nodiscard]] const Fragment* fragment_at(Bytes key) const;
  [[nodiscard]] const std::vector<Fragment>& fragments() const { return fragments_; }
  /// What it was made of, newest first: of each seq, pieces that do not overlap nor touch with the same birth.
  [[nodiscard]] std::size_t size() const { return spans_.size(); }
  [[nodiscard]] RangeTombstone tombstone(std::size_t i) const;
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  /// A tombstone: covers fragments [first, last).
  struct Span {
    Cover cover;
    std::uint32_t first, last;
  };
  void sweep(const std::vector<RangeTombstone>& pieces);
  void build_tree();
  template <typename Visit>
  void each_node_above(const Fragment& fragment, Visit visit) const;

  std::vector<Fragment> fragments_;
  std::vector<Span> spans_;                // newest first
  std::vector<std::uint32_t> node_begin_;  // by node of the tree: where its spans begin in node_spans_
  std::vector<std::uint32_t> node_spans_;  // numbers of spans, ascending within a node
};

using SharedTombstones = std::shared_ptr<const FragmentedRangeTombstones>;

}  // namespace ebbtide
