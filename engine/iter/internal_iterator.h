// The interface of iterators over versions. Memtables, tables, runs and merges implement it.
//
// Order: key ascending, then seq descending. An iterator shows every version, including tombstones, but no range tombstones;
// readers get range tombstones separately (coverage.h). The position is in the base class, so that reading the current entry
// needs no virtual call. An iterator over iterators refers to the entry of its current child, so that an entry is decoded once
// and never copied.
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
  /// Moves to the newest version of the first key >= key.
  virtual void seek(Bytes key) = 0;
  /// Moves to the oldest version of the last key < key.
  virtual void seek_before(Bytes key) = 0;
  /// next() and prev() require valid().
  virtual void next() = 0;
  virtual void prev() = 0;

  [[nodiscard]] bool valid() const { return valid_; }
  /// The current entry; requires valid(). Views in it are valid until the iterator moves or is destroyed.
  [[nodiscard]] const Entry& entry() const { return *shown_; }
  /// Ok, or the error that made the iterator invalid. An error stays until the next seek.
  [[nodiscard]] const Status& status() const { return status_; }

 protected:
  InternalIterator() = default;
  bool valid_ = false;
  Entry entry_;
  const Entry* shown_ = &entry_;  ///< the result of entry(): entry_, or the entry of a child
  Status status_;
};

}  // namespace ebbtide
