// Computes the fields of a staged entry that only the commit determines. The commit gives the entry's batch a position in the
// order of writes: from it follows the seq. The birth or delete key follows from the batch's time and the tree's stamp mode.
#pragma once

#include <limits>

#include "base/entry.h"

namespace ebbtide {

/// Stands for the delete debt of an entry whose batch has no time yet; settle() replaces it by the time.
inline constexpr Millis kUnbornDebt = std::numeric_limits<Millis>::max();

/// The position of a batch in the order of writes. The memtable of a staged batch stores entries in their form before the commit,
/// and one EntryPlace for all of them.
struct EntryPlace {
  SeqNum first_seq = 0;  ///< seq of the batch's first operation; 0 = the entries already have their final form
  Millis time = 0;       ///< the batch's time
  StampMode stamp = StampMode::kWriteTime;

  /// Gives `entry` its final form. Before the call, the entry's seq is the operation's index in the batch, and its delete key is
  /// the operation's stamp.
  void settle(Entry* entry) const {
    entry->seq += first_seq;
    // A value that had expired before its commit becomes a tombstone that is born at the batch's time. If its birth were the
    // expiry, its deadline could already have passed.
    const bool born_dead = entry->kind != EntryKind::kHeader && entry->expired(time);
    if (entry->is_tombstone() || born_dead) {
      entry->kind = EntryKind::kTombstone;
      entry->delete_key = time;
      entry->debt = 0;  // not needed: the debt would have the time of the tombstone's birth
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
      case StampMode::kGiven:
        if (entry->delete_key == kNoStamp) entry->delete_key = time;
        break;
    }
  }
};

}  // namespace ebbtide
