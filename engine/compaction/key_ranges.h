// Half-open ranges of keys, and the ranges that are final (bottommost).
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/table_stats.h"

namespace ebbtide {

/// Returns a table's bounds as [start, end), from its stats: only keys in this range may have entries or tombstones in the table.
/// The table must not be empty.
inline KeyRange range_of(const TableStats& stats) {
  if (stats.unbounded) return {stats.smallest, {}};
  KeyRange range{stats.smallest, stats.largest};
  if (!stats.largest_exclusive) range.end.push_back('\0');
  return range;
}

/// Returns true if range end `a` is before range end `b`; "" is past every key.
inline bool end_before(Bytes a, Bytes b) { return !a.empty() && (b.empty() || a < b); }
/// Returns true if a range that ends at `end` is before every key of a range that starts at `start`.
inline bool ends_at_or_before(Bytes end, Bytes start) { return !end.empty() && end <= start; }

inline bool ranges_overlap(const KeyRange& a, const KeyRange& b) {
  return !ends_at_or_before(a.end, b.start) && !ends_at_or_before(b.end, a.start);
}
inline bool is_empty(const KeyRange& range) { return !range.end.empty() && range.start >= range.end; }

/// Returns the intersection, which may be empty.
inline KeyRange intersection(const KeyRange& a, const KeyRange& b) {
  return {std::max(a.start, b.start), end_before(a.end, b.end) ? a.end : b.end};
}

/// Returns the parts of `whole` before and after `middle`. `whole` and `middle` must overlap.
[[nodiscard]] std::vector<KeyRange> outside_of(const KeyRange& whole, const KeyRange& middle);

/// Says which keys are final for an output: no older file outside the merge has the key within its bounds. Copyable; immutable.
class Finality {
 public:
  Finality() = default;
  /// `below`: the bounds of the files that are older than the output, in any order.
  explicit Finality(std::vector<KeyRange> below);

  /// Returns true if no older file overlaps the range.
  [[nodiscard]] bool is_final(const KeyRange& range) const;
  /// Like the other is_final(), for one key. Keys ascend from call to call; `cursor` starts at 0, and the calls advance it.
  [[nodiscard]] bool is_final(Bytes key, std::size_t* cursor) const {
    while (*cursor < below_.size() && ends_at_or_before(below_[*cursor].end, key)) ++*cursor;
    return *cursor == below_.size() || key < Bytes(below_[*cursor].start);
  }
  /// Cuts the range where finality changes. Returns the parts in key order; true = final.
  [[nodiscard]] std::vector<std::pair<KeyRange, bool>> pieces(const KeyRange& range) const;

 private:
  [[nodiscard]] std::size_t first_reaching(Bytes key) const;
  std::vector<KeyRange> below_;  // disjoint, ascending; adjacent ranges are merged
};

}  // namespace ebbtide
