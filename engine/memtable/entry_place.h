// The final fields of an entry, which are known once its batch has a place in the order of writes. These are its seq and its
// birth or delete key, from the batch's time and the tree's stamp mode.
#pragma once

#include <limits>

#include "base/entry.h"

namespace ebbtide {

/// The delete debt of an entry whose batch has no time yet.
inline constexpr Millis kUnbornDebt = std::numeric_limits<Millis>::max();

/// The place of a batch. A memtable of a staged batch stores entries as its operations had them, and this place beside them.
struct EntryPlace {
  SeqNum first_seq = 0;  ///< 0 = the entries already have their final form
  Millis time = 0;
  StampMode stamp = StampMode::kWriteTime;

  /// Gives `entry` its final form. Before the call, the entry's seq is the operation's index in the batch, and its delete key is
  /// the operation's stamp.
  void settle(Entry* entry) const {
    entry->seq += first_seq;
    // A value that had expired before it was written is a delete, and is born now: an older birth could already be past its
    // deadline.
    const bool born_dead = entry->kind != EntryKind::kHeader && entry->expired(time);
    if (entry->is_tombstone() || born_dead) {
      entry->kind = EntryKind::kTombstone;
      entry->delete_key = time;
      entry->debt = 0;  // the tombstone's birth is the same
      entry->expiry = 0;
      entry->value = {};
      entry->shared = nullptr;
      return;
    }
    if (entry->debt != 0) entry->debt = time;
    if (entry->element) {
      entry->delete_key = kNoStamp;
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
