// The progress of the reaper (db/background/reaper.h), which deletes the elements of dead collections in one tree.
#pragma once

#include <engine/types.h>

namespace ebbtide {

/// For each header of a large collection that these fields cover, a range tombstone that deletes its elements is durable. So
/// merges may drop the header. A header that expired, or was deleted by stamp, later than the fields say may still have
/// elements, so merges must keep it.
struct Reaped {
  Millis expiry = 0;  ///< covers headers that expired at this engine time or earlier
  SeqNum record = 0;  ///< covers headers that a secondary range tombstone with this seq or a lower one deletes
  bool operator==(const Reaped&) const = default;
};

}  // namespace ebbtide
