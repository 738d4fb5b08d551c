// The progress of the reaper (db/background/reaper.h) in one tree.
#pragma once

#include <engine/types.h>

namespace ebbtide {

/// The elements of a large collection are deleted after its header has died: a range tombstone over them was durable before a
/// point of progress passed the header's death. A header that died later may still have elements, so merges must keep it.
struct Reaped {
  Millis expiry = 0;  ///< concerns headers that expired at this engine time or earlier
  SeqNum record = 0;  ///< concerns headers that a secondary range tombstone with this seq or a lower one covers
  bool operator==(const Reaped&) const = default;
};

}  // namespace ebbtide
