// Range tombstones, cut into fragments that do not overlap, so that one search finds all tombstones that cover a key.
//
// Input: tombstones that may overlap. Output: fragments in key order. All keys of a fragment are covered by the same
// tombstones, the fragment's *covers*. The object is immutable and shared. A table builds one when it is opened, a memtable
// builds one for each version of its set.
//
// n nested tombstones have n^2 pairs of fragment and cover, and a client may write such tombstones. So the pairs are not
// stored. A fragment stores its newest cover, which is enough for readers, except those of old views. Readers of old views use a
// segment tree over the fragments (Bentley, 1977): each tombstone is in at most 2 log2(n) nodes. The covers of a fragment are
// the tombstones in its leaf and in all nodes above the leaf. Memory: O(n log n), or O(n) without overlaps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
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
    SharedKey start;
    SharedKey end;        ///< "" = no upper bound (the last fragment only)
    Cover newest;         ///< the newest cover of the fragment
    SeqNum oldest_seq;    ///< the smallest seq of the fragment's covers
    Millis oldest_birth;  ///< the oldest birth of the fragment's covers

    [[nodiscard]] KeyRange range() const { return {std::string(Bytes(start)), std::string(Bytes(end))}; }
  };

  FragmentedRangeTombstones() = default;
  explicit FragmentedRangeTombstones(std::span<const RangeTombstone> tombstones);

  [[nodiscard]] bool empty() const { return fragments_.empty(); }
  /// Returns the newest cover of `key` with seq <= view_seq, or null. Takes O(log n) for n fragments if the result is the newest
  /// of all covers of the key, otherwise O(log^2 n).
  [[nodiscard]] const Cover* newest_cover(Bytes key, SeqNum view_seq) const;
  /// Like the other newest_cover(), for the keys of `fragment`, a fragment of this object.
  [[nodiscard]] const Cover* newest_cover(const Fragment& fragment, SeqNum view_seq) const;
  /// Sets `out` to all covers of `fragment`, a fragment of this object, newest first.
  void covers(const Fragment& fragment, std::vector<Cover>* out) const;
  /// Returns the fragment that contains `key`, or null.
  [[nodiscard]] const Fragment* fragment_at(Bytes key) const;
  /// Returns the index of the first fragment that starts after `key`; the number of fragments if there is none. O(log fragments).
  [[nodiscard]] std::size_t first_after(Bytes key) const;
  [[nodiscard]] const std::vector<Fragment>& fragments() const { return fragments_; }
  /// size() is the number of tombstones from which this object was built, and tombstone(i) the i-th tombstone, newest first.
  /// Tombstones with the same seq are parts of one delete, which was cut. They do not overlap; if two are adjacent, they differ
  /// in birth.
  [[nodiscard]] std::size_t size() const { return spans_.size(); }
  [[nodiscard]] RangeTombstone tombstone(std::size_t i) const;
  /// Returns the bytes of memory without the bounds' bytes, which other objects may share.
  [[nodiscard]] std::size_t memory_bytes() const;
  /// Returns the bytes of memory of the bounds. O(fragments).
  [[nodiscard]] std::size_t key_bytes() const;

 private:
  /// A tombstone, which covers the fragments [first, last).
  struct Span {
    Cover cover;
    std::uint32_t first, last;
  };
  void sweep(const std::vector<RangeTombstone>& pieces);
  void build_words();
  void build_tree();
  template <typename Visit>
  void each_node_above(const Fragment& fragment, Visit visit) const;

  std::vector<Fragment> fragments_;
  std::string common_;                     // the common prefix of all starts
  std::vector<std::uint64_t> words_;       // for each start, the 8 bytes after common_, big endian: a search compares these first
  std::vector<Span> spans_;                // newest first
  std::vector<std::uint32_t> node_begin_;  // for each node of the tree, the index in node_spans_ of its first span
  std::vector<std::uint32_t> node_spans_;  // indexes into spans_, ascending within a node
};

using SharedTombstones = std::shared_ptr<const FragmentedRangeTombstones>;

}  // namespace ebbtide
