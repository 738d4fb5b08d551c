// The iterator over versions that memtables, tables, runs and merges all implement.
//
// Order: key ascending, seq descending within a key. It shows every version, tombstones included; range tombstones are passed
// beside it. The position is in the base class, so that reading the current entry needs no virtual call. An iterator over
// iterators points to the entry of its current child, so that an entry is decoded once and never copied.
#pragma once

#include <engine/status.h>
#include "base/entry.h"

namespace ebbtide {

/// Not thread-safe.
class InternalIterator {
 public:
  virtual ~InternalIterator() = default;
  InternalIterator(const InternalIterator&) = delete;
  InternalIterator& operator=(const InternalIterator&) = delete;

  virtual void seek_to_first() = 0;
  virtual void seek_to_last() = 0;
  /// The newest version of the first key >= key.
  virtual void seek(Bytes key) = 0;
  /// The last version (oldest) of the last key < key.
  virtual void seek_before(Bytes key) = 0;
  /// Both need valid().
  virtual void next() = 0;
  virtual void prev() = 0;

  [[nodiscard]] bool valid() const { return valid_; }
  /// Views in it are valid until the iterator moves or is destroyed.
  [[nodiscard]] const Entry& entry() const { return *shown_; }
  /// An error makes the iterator invalid and stays until the next seek.
  [[nodiscard]] const Status& status() const { return status_; }

 protected:
  InternalIterator() = default;
  bool valid_ = false;
  Entry entry_;
  const Entry* shown_ = &entry_;  ///< what entry() returns: entry_, or the entry of a child
  Status status_;
};

}  // namespace ebbtide
