// One decoded version of a key. Memtables, tables, iterators, merges and table builders exchange this type.
//
// Order of versions: key ascending, then seq descending (the newest version of a key comes first).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <engine/types.h>

#include "base/shared_key.h"

namespace ebbtide {

/// States where a value of more than kLargeValueBytes is: it lies in blocks of its own in a table's data file. The TableLookup
/// that returned this reference can read the value; a table builder can copy its blocks without decoding them.
struct LargeValueRef {
  const void* table = nullptr;     ///< the TableLookup of the value's table; null = no large value
  std::uint64_t offset = 0;        ///< offset of the first block in the data file
  std::uint64_t stored_bytes = 0;  ///< length of the blocks in the file
  std::uint64_t length = 0;        ///< length of the value
};

/// Key, value and large are views. The iterator or page that set them documents how long they are valid.
struct Entry {
  Bytes key;
  SeqNum seq = 0;
  EntryKind kind = EntryKind::kValue;
  bool first = false;               ///< true only if the tree surely has no older version of the key
  bool element = false;             ///< true for an element of a large collection, and for a tombstone of an element
  DeleteKey delete_key = kNoStamp;  ///< the stamp; of a tombstone: its birth
  Millis expiry = 0;                ///< engine time from which the entry counts as deleted; 0 = never
  /// Delete debt: the oldest birth among the tombstones and the expired or covered versions that this entry hides. If the
  /// entry's own put deleted data (an item of a collection), the time of that put counts, too. 0 = none.
  Millis debt = 0;
  Bytes value;                                                 ///< empty if large is set
  const std::shared_ptr<const std::string>* shared = nullptr;  ///< set if `value` lies in a shared buffer of a memtable
  /// States where a large value is; large.table is null for other values.
  LargeValueRef large;

  [[nodiscard]] bool is_tombstone() const { return kind == EntryKind::kTombstone; }
  /// True if the value is complete in this entry: a string, or a collection that is one entry.
  [[nodiscard]] bool is_plain() const { return kind == EntryKind::kValue || kind == EntryKind::kCompact; }
  /// Returns true if the entry is a barrier: a table that may have this key and later keys cannot be read
  /// (iter/barrier_iterator.h).
  [[nodiscard]] bool is_barrier() const { return is_tombstone() && !value.empty(); }
  [[nodiscard]] bool is_large() const { return large.table != nullptr; }
  [[nodiscard]] std::uint64_t value_length() const { return is_large() ? large.length : value.size(); }
  [[nodiscard]] bool expired(Millis now) const { return expiry != 0 && expiry <= now; }
  /// The birth of a tombstone. Call only for tombstones.
  [[nodiscard]] Millis birth() const { return delete_key; }
};

/// A delete of every key in [start, end) with a smaller seq. An empty `end` means no upper bound.
struct RangeTombstone {
  SharedKey start;
  SharedKey end;
  SeqNum seq = 0;
  Millis birth = 0;

  [[nodiscard]] bool covers(Bytes key) const { return key >= Bytes(start) && (end.empty() || key < Bytes(end)); }
};

/// Returns true if version a comes before version b: by key ascending, then by seq descending.
inline bool version_before(Bytes key_a, SeqNum seq_a, Bytes key_b, SeqNum seq_b) {
  const int order = key_a.compare(key_b);
  return order != 0 ? order < 0 : seq_a > seq_b;
}

}  // namespace ebbtide
