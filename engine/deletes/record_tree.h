// A persistent B+-tree of records. (Persistent: a change makes a new tree, and the old one stays valid.)
//
//   root     one part (subtree): a leaf, or an inner node
//   inner    up to 32 parts, each with a summary of the records in its subtree
//   leaf     up to 64 records, in order
//
// Nodes are immutable and shared. A change copies the changed leaves and the nodes between them and the root; the new tree shares
// all other nodes with the old tree. So a changed copy of a tree of a million records takes only a few KiB more.
//
// A query descends only into parts whose summary shows that they can improve the answer. If no two records overlap, this is one
// part of each node. A node is allocated exactly as large as its content.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

/// A secondary range tombstone: deletes every key whose current entry has lo <= D < hi and a smaller seq.
struct Record {
  DeleteKey lo = 0;
  DeleteKey hi = 0;  ///< exclusive; lo < hi <= kDeleteKeyEnd
  SeqNum seq = 0;
  Millis birth = 0;  ///< engine time of the delete, or of an older delete whose record was merged into this record

  [[nodiscard]] bool has(DeleteKey d) const { return lo <= d && d < hi; }
  [[nodiscard]] bool covers(DeleteKey d, SeqNum entry_seq, SeqNum view_seq) const {
    return has(d) && entry_seq < seq && seq <= view_seq;
  }
  bool operator==(const Record&) const = default;
};

/// The orders that records may have in a tree.
struct ByRange {
  static bool before(const Record& a, const Record& b) {
    if (a.lo != b.lo) return a.lo < b.lo;
    return a.seq != b.seq ? a.seq < b.seq : a.birth < b.birth;
  }
};
struct BySeq {
  static bool before(const Record& a, const Record& b) { return a.seq < b.seq; }
};

/// A subtree, and the summary of its records. In the root of an empty tree, only `count` is valid.
struct RecordPart {
  Record first{};  ///< the first record in the tree's order
  DeleteKey min_lo = 0, max_lo = 0, min_hi = 0, max_hi = 0;
  SeqNum min_seq = 0, max_seq = 0;
  Millis min_birth = 0;   ///< oldest birth of the records; a record without a birth counts as born at 1
  DeleteKey reach = 0;    ///< the largest max_hi of this part and of earlier parts of the same node
  std::size_t count = 0;  ///< number of records in the subtree
  /// Number of elements in `records` or `parts`.
  std::uint32_t size = 0;
  bool disjoint = true;                       ///< for a leaf of a tree by range: true if no two of its records overlap
  bool gapless = true;                        ///< for trees by range: true if the records together cover all of [min_lo, max_hi)
  std::shared_ptr<const Record[]> records{};  ///< a leaf has `size` records
  std::shared_ptr<const RecordPart[]> parts{};  ///< an inner node has `size` parts

  [[nodiscard]] bool is_leaf() const { return parts == nullptr; }
  [[nodiscard]] std::span<const Record> leaf() const { return {records.get(), size}; }
  [[nodiscard]] std::span<const RecordPart> inner() const { return {parts.get(), size}; }
  /// Returns true if some record of the subtree may overlap [min, max], both inclusive.
  [[nodiscard]] bool may_overlap(DeleteKey min, DeleteKey max) const { return min_lo <= max && min < max_hi; }
  /// Returns true if every record of the subtree overlaps [min, max].
  [[nodiscard]] bool all_overlap(DeleteKey min, DeleteKey max) const { return max_lo <= max && min < min_hi; }
};

/// Returns `birth`, or 1 if it is 0: a record without a birth counts as the oldest possible.
inline Millis known_birth(Millis birth) { return std::max<Millis>(birth, 1); }

/// Immutable; a copy shares all nodes. Thread-safe. `Order` is ByRange or BySeq.
template <typename Order>
class RecordTree {
 public:
  RecordTree() = default;

  [[nodiscard]] const RecordPart& root() const { return root_; }
  [[nodiscard]] bool empty() const { return root_.count == 0; }
  [[nodiscard]] std::size_t size() const { return root_.count; }

  /// Returns a tree in which `removed` are removed and `added` are added. Every removed record must be in the tree. In the tree's
  /// order, an added record may be equal to a removed one, but not to another record. Takes O(log n) for each record, and copies
  /// each changed leaf.
  [[nodiscard]] RecordTree changed(std::vector<Record> removed, std::vector<Record> added) const;

  /// Calls `visit` for records in order, and leaves out parts for which `wanted` returns false. `visit` returns true to end the
  /// walk. Returns true if `visit` ended the walk.
  template <typename Wanted, typename Visit>
  bool walk(Wanted wanted, Visit visit) const {
    return root_.count != 0 && wanted(root_) && walk_part(root_, wanted, visit);
  }

  /// For trees by range: calls `visit` for records with lo <= d < hi, by descending lo. `wanted`, `visit` and the result are as
  /// for walk().
  template <typename Wanted, typename Visit>
  bool stab(DeleteKey d, Wanted wanted, Visit visit) const {
    return root_.count != 0 && root_.max_hi > d && wanted(root_) && stab_part(root_, d, wanted, visit);
  }

  /// Returns the number of records before the first record for which `after` is true; `after` must also be true for all later
  /// records.
  template <typename After>
  [[nodiscard]] std::size_t rank(After after) const;
  /// Returns the record that has `i` records before it. Requires i < size().
  [[nodiscard]] const Record& at(std::size_t i) const;

  /// Bytes of all nodes, including shared ones.
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  template <typename Wanted, typename Visit>
  static bool walk_part(const RecordPart& part, Wanted& wanted, Visit& visit) {
    if (part.is_leaf()) return std::any_of(part.leaf().begin(), part.leaf().end(), visit);
    return std::any_of(part.inner().begin(), part.inner().end(),
                       [&](const RecordPart& below) { return wanted(below) && walk_part(below, wanted, visit); });
  }
  template <typename Wanted, typename Visit>
  static bool stab_part(const RecordPart& part, DeleteKey d, Wanted& wanted, Visit& visit);

  RecordPart root_;
};

template <typename Order>
template <typename Wanted, typename Visit>
bool RecordTree<Order>::stab_part(const RecordPart& part, DeleteKey d, Wanted& wanted, Visit& visit) {
  if (part.is_leaf()) {
    const auto records = part.leaf();
    auto at = std::partition_point(records.begin(), records.end(), [d](const Record& r) { return r.lo <= d; });
    while (at != records.begin()) {
      --at;
      if (at->hi > d && visit(*at)) return true;
      if (part.disjoint) return false;  // earlier records end before this record begins
    }
    return false;
  }
  const auto parts = part.inner();
  auto at = std::partition_point(parts.begin(), parts.end(), [d](const RecordPart& p) { return p.min_lo <= d; });
  while (at != parts.begin() && (--at)->reach > d) {
    if (at->max_hi > d && wanted(*at) && stab_part(*at, d, wanted, visit)) return true;
  }
  return false;
}

template <typename Order>
template <typename After>
std::size_t RecordTree<Order>::rank(After after) const {
  const RecordPart* part = &root_;
  if (part->count == 0) return 0;
  std::size_t before = 0;
  while (!part->is_leaf()) {
    const auto parts = part->inner();
    // Let R be the first record for which `after` is true. R is in the last part that begins before R, or R begins the next part.
    const auto next = std::partition_point(parts.begin() + 1, parts.end(), [&](const RecordPart& p) { return !after(p.first); });
    for (auto passed = parts.begin(); passed + 1 != next; ++passed) before += passed->count;
    part = &*std::prev(next);
  }
  const auto records = part->leaf();
  const auto at = std::partition_point(records.begin(), records.end(), [&](const Record& r) { return !after(r); });
  return before + static_cast<std::size_t>(at - records.begin());
}

extern template class RecordTree<ByRange>;
extern template class RecordTree<BySeq>;

}  // namespace ebbtide
