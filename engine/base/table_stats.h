// Statistics of a table's contents. The builder counts them; the table's properties block and the manifest both store them; tree
// shapes are derived from them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include <engine/result.h>
#include "base/entry.h"

namespace ebbtide {

struct TableStats {
  std::uint64_t entries = 0;     ///< all versions, tombstones included, range tombstones not
  std::uint64_t tombstones = 0;  ///< point tombstones
  std::uint64_t range_tombstones = 0;
  std::uint64_t debts = 0;                       ///< entries with a debt
  std::uint64_t key_bytes = 0, value_bytes = 0;  ///< before compression; large values count in value_bytes
  std::uint64_t large_values = 0;
  std::string smallest, largest;   ///< bounds of point entries and range tombstones together, both inclusive keys ...
  bool largest_exclusive = false;  ///< ... but if set, `largest` is the exclusive end of a range tombstone
  bool unbounded = false;          ///< a range tombstone reaches past every key; `largest` is then empty
  SeqNum min_seq = kMaxSeqNum, max_seq = 0;
  DeleteKey min_delete_key = kNoStamp, max_delete_key = 0;  ///< of entries with a stamp, without tombstones; min > max: none
  std::uint64_t unstamped = 0;                              ///< number of entries without a stamp, without tombstones
  Millis min_expiry = 0, max_expiry = 0;                    ///< of entries with an expiry; 0 = none
  Millis oldest_tombstone = 0;                              ///< oldest births; 0 = none
  Millis oldest_range_tombstone = 0;
  Millis oldest_debt = 0;
  SeqNum applied_seq = 0;  ///< no entry here is covered by a secondary range delete up to this seq

  void add_entry(const Entry& entry);
  void add_range_tombstone(const RangeTombstone& tombstone);
  /// The smallest birth of the table's pending deletes, or 0.
  [[nodiscard]] Millis oldest_obligation() const;
  /// True if [smallest, largest] overlaps the range.
  [[nodiscard]] bool overlaps(const KeyRange& range) const;
  /// True if `key` is past the upper bound.
  [[nodiscard]] bool ends_before(Bytes key) const {
    return !unbounded && (largest_exclusive ? Bytes(largest) <= key : Bytes(largest) < key);
  }

  void encode(std::string* out) const;
  static Result<TableStats> decode(Bytes* in);
  bool operator==(const TableStats&) const = default;
};

}  // namespace ebbtide
