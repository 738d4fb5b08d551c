// A walk over versions: memtables, tables, runs and merges all speak this.
//
// Order: key ascending, seq descending within a key. Every version is shown, tombstones too; range tombstones are beside the
// walk, not in it. Position is in the base class, so that looking at the current entry is no virtual call; a walk over walks
// points to the entry of the one it is on, so that an entry is decoded once and copied nowhere.
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
  /// Views in it last until the iterator moves or goes.
  [[nodiscard]] const Entry& entry() const { return *shown_; }
  /// An error makes the iterator invalid and sticks until the next seek.
  [[nodiscard]] const Status& status() const { return status_; }

 protected:
  InternalIterator() = default;
  bool valid_ = false;
  Entry entry_;
  const Entry* shown_ = &entry_;  ///< what entry() gives: entry_, or that of a walk inside
  Status status_;
};

}  // namespace ebbtide
