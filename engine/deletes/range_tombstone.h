// Range tombstones, cut into fragments that do not overlap, so that one search finds all covers of a key.
//
// Input: tombstones that may overlap. Output: fragments in key order; the set of covering tombstones changes at their borders.
// Immutable and shared. A table builds one when it is opened, a memtable one per version of its set.
//
// n nested tombstones have n^2 pairs of fragment and cover, and a client may write such. So the pairs are not stored. A fragment
// stores its newest cover, which serves all readers but those of old views. For these there is a segment tree over the fragments
// (Bentley, 1977): each tombstone is in at most 2 log2(n) nodes, and the covers of a fragment are those of the nodes above it.
// Memory: O(n log n), O(n) without overlaps.
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
  /// The same for a whole fragment of this object.
  [[nodiscard]] const Cover* newest_cover(const Fragment& fragment, SeqNum view_seq) const;
  /// Replaces `out` by all covers of a fragment of this object, newest first.
  void covers(const Fragment& fragment, std::vector<Cover>* out) const;
  /// The fragment that contains `key`, or null.
  [[nodiscard]] const Fragment* fragment_at(Bytes key) const;
  [[nodiscard]] const std::vector<Fragment>& fragments() const { return fragments_; }
  /// The tombstones it was built from, newest first. Pieces of one seq neither overlap nor touch with the same birth.
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
