// The final fields of an entry once its batch has a place in the order of writes: its seq, and, from the batch's time and the
// tree's stamp mode, its birth or its delete key.
#pragma once

#include "base/entry.h"

namespace ebbtide {

/// The place of a batch. A memtable of a staged batch holds entries in the form of its operations, and this beside them.
struct EntryPlace {
  SeqNum first_seq = 0;  ///< 0 = none: the entries have their final form
  Millis time = 0;
  StampMode stamp = StampMode::kWriteTime;

  /// Gives `entry` its final form. Before, its seq is the operation's index in the batch and its delete key the operation's
  /// stamp.
  void settle(Entry* entry) const {
    entry->seq += first_seq;
    // A value that expired before it was written is a delete, born now: an older birth could be past its deadline already.
    const bool born_dead = entry->kind == EntryKind::kValue && entry->expired(time);
    if (entry->is_tombstone() || born_dead) {
      entry->kind = EntryKind::kTombstone;
      entry->delete_key = time;
      entry->expiry = 0;
      entry->value = {};
      entry->shared = nullptr;
      return;
    }
    switch (stamp) {
      case StampMode::kWriteTime:
        entry->delete_key = time;
        break;
      case StampMode::kExpireTime:
        entry->delete_key = entry->expiry == 0 ? kNoStamp : entry->expiry;
        break;
      case StampMode::kExplicit:
        break;
    }
  }
};

}  // namespace ebbtide
