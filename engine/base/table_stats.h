// Statistics of a table's contents. The table builder counts them. The table's properties block and the manifest both store
// them, and a TreeShape is made from them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include <engine/points.h>
#include <engine/result.h>
#include "base/entry.h"

namespace ebbtide {

struct TableStats {
  std::uint64_t entries = 0;     ///< versions of all keys, tombstones included; range tombstones are not counted
  std::uint64_t tombstones = 0;  ///< point tombstones
  std::uint64_t range_tombstones = 0;
  std::uint64_t debts = 0;                       ///< number of entries with a debt
  std::uint64_t key_bytes = 0, value_bytes = 0;  ///< before compression; value_bytes includes large values
  std::uint64_t large_values = 0;
  std::uint64_t collections = 0;  ///< compact entries and headers
  std::uint64_t headers = 0;      ///< headers of large collections
  std::uint64_t elements = 0;     ///< versions of elements of large collections, including element_tombstones
  std::uint64_t element_tombstones = 0;
  std::string smallest, largest;   ///< key range of all point entries and range tombstones, both ends inclusive
  bool largest_exclusive = false;  ///< true if `largest` is exclusive, as the end of a range tombstone
  bool unbounded = false;          ///< true if a range tombstone reaches past every key; `largest` is then empty
  SeqNum min_seq = kMaxSeqNum, max_seq = 0;
  /// Smallest and largest delete key of the entries with a stamp; tombstones are left out. min > max: there are no such entries.
  DeleteKey min_delete_key = kNoStamp, max_delete_key = 0;
  std::uint64_t unstamped = 0;            ///< number of entries without a stamp, not counting tombstones and elements
  Millis min_expiry = 0, max_expiry = 0;  ///< smallest and largest expiry of the entries that have one; 0 = none
  Millis oldest_tombstone = 0;            ///< oldest birth of a point tombstone; 0 = there is none
  Millis oldest_range_tombstone = 0;      ///< oldest birth of a range tombstone; 0 = there is none
  Millis oldest_debt = 0;                 ///< oldest birth of a delete debt; 0 = there is none
  SeqNum applied_seq = 0;                 ///< no secondary range tombstone with a seq up to this covers an entry of the table

  std::uint32_t points_at = kNoPoints;  ///< offset of the points in the keys (engine/points.h); kNoPoints: `points` is unknown
  PointBounds points;                   ///< encloses the points of all entries

  void add_entry(const Entry& entry);
  void add_range_tombstone(const RangeTombstone& tombstone);
  /// Returns the oldest birth of the tombstones, range tombstones and delete debts; 0 = there are none.
  [[nodiscard]] Millis oldest_obligation() const;
  /// Returns true if the table's filter has the keys of collections twice (filter/bloom.h). Returns false if most keys are
  /// collections: the second copy would need much memory, and would speed up only puts of the few other keys.
  [[nodiscard]] bool collections_twice() const { return collections != 0 && collections <= entries / 2; }
  /// Returns the number of keys in the table's filter. Each version counts as a key, so the result is too large if a key has
  /// several versions.
  [[nodiscard]] std::uint64_t filter_keys() const { return entries + (collections_twice() ? collections : 0); }
  /// Returns true if the table surely has no entry whose point is in the filter's shape.
  [[nodiscard]] bool misses(const PointFilter& filter) const {
    return points_at == filter.points_at() && (points.empty() || !filter.meets(points));
  }
  /// Returns true if [smallest, largest] overlaps the range.
  [[nodiscard]] bool overlaps(const KeyRange& range) const;
  /// Returns true if `key` is past the upper bound of the table's keys.
  [[nodiscard]] bool ends_before(Bytes key) const {
    return !unbounded && (largest_exclusive ? Bytes(largest) <= key : Bytes(largest) < key);
  }

  void encode(std::string* out) const;
  static Result<TableStats> decode(Bytes* in);
  bool operator==(const TableStats&) const = default;
};

}  // namespace ebbtide
