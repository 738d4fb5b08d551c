// What an entry gets with its batch's place in the order of writes: its seq, and, from the batch's time and the tree's stamp mode,
// its birth or its delete key.
#pragma once

#include "base/entry.h"

namespace ebbtide {

/// The place of a batch. A memtable of a staged batch holds entries as its operations gave them, and this beside them.
struct EntryPlace {
  SeqNum first_seq = 0;  ///< 0 = none: the entries have their final form
  Millis time = 0;
  StampMode stamp = StampMode::kWriteTime;

  /// Gives `entry`, whose seq is the operation's index in the batch and whose delete key is the stamp that the operation brought, its
  /// final form.
  void settle(Entry* entry) const {
    entry->seq += first_seq;
    // A value that expired before it was written is a delete, born now: an older birth would break promises that were kept already.
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
