// One decoded version of a key. Memtables, tables, iterators, survivors and builders exchange this type.
//
// Order of versions: key ascending, then seq descending (the newest version of a key comes first).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <engine/types.h>

namespace ebbtide {

/// The place on disk of a value of more than kLargeValueBytes: `blocks` blocks of its table's data file, from `offset` on.
/// The reader that returned it can read it; a builder can copy its blocks without decoding them.
struct LargeValueRef {
  const void* table = nullptr;  ///< the TableLookup of the table that has it
  std::uint64_t offset = 0;     ///< in the data file
  std::uint64_t stored_bytes = 0;
  std::uint64_t length = 0;  ///< of the value
};

/// Key, value and large are views. The iterator or page that filled them in documents how long they are valid.
struct Entry {
  Bytes key;
  SeqNum seq = 0;
  EntryKind kind = EntryKind::kValue;
  bool first = false;               ///< known to be the key's oldest version in the tree
  DeleteKey delete_key = kNoStamp;  ///< the stamp; for a tombstone its birth instead
  Millis expiry = 0;                ///< absolute; 0 = never
  Millis debt = 0;                  ///< delete debt: oldest birth of the tombstones and dead versions that it hides; 0 = none
  Bytes value;                      ///< empty if large is set
  const std::shared_ptr<const std::string>* shared = nullptr;  ///< set if `value` lies in a shared buffer (memtable)
  LargeValueRef large;                                         ///< large.table is null unless the value lies in blocks of its own

  [[nodiscard]] bool is_tombstone() const { return kind == EntryKind::kTombstone; }
  /// Marks the start of a table that cannot be read, from this key on (iter/barrier_iterator.h).
  [[nodiscard]] bool is_barrier() const { return is_tombstone() && !value.empty(); }
  [[nodiscard]] bool is_large() const { return large.table != nullptr; }
  [[nodiscard]] std::uint64_t value_length() const { return is_large() ? large.length : value.size(); }
  [[nodiscard]] bool expired(Millis now) const { return expiry != 0 && expiry <= now; }
  /// Birth of a tombstone.
  [[nodiscard]] Millis birth() const { return delete_key; }
};

/// A delete of every key in [start, end) with a smaller seq. An empty end has no upper bound.
struct RangeTombstone {
  std::string start;
  std::string end;
  SeqNum seq = 0;
  Millis birth = 0;

  [[nodiscard]] bool covers(Bytes key) const { return key >= Bytes(start) && (end.empty() || key < Bytes(end)); }
};

/// (key ascending, seq descending)
inline bool version_before(Bytes key_a, SeqNum seq_a, Bytes key_b, SeqNum seq_b) {
  const int order = key_a.compare(key_b);
  return order != 0 ? order < 0 : seq_a > seq_b;
}

}  // namespace ebbtide
