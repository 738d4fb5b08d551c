// Finds large collections that have died without a delete of their elements: they have expired, or a delete by stamp covers their
// header.
#pragma once

#include <functional>

#include <engine/collection_keys.h>
#include <engine/read_view.h>
#include "deletes/reaped.h"

namespace ebbtide {

struct DeadHeader {
  Bytes key;  ///< engine key of the collection
  Generation generation = 0;
  Millis died = 0;  ///< the expiry, or the birth of the delete by stamp
};

/// Visits headers that are the newest version of their key in the view, and that died in the period from `after` to the view's
/// seq and time. Headers that died earlier may be visited, too. `view` must be leased and have a tree. Iterates over memtables
/// that have headers, and reads only pages that may have such a header. Sets `*any` to true if a header may have died in that
/// time, even an overwritten one. Returns the first error of `visit`, or kRevoked, kCorruption or kIoError.
Status visit_dead_headers(const ReadView& view, const Reaped& after, const std::function<Status(const DeadHeader&)>& visit,
                          bool* any);

}  // namespace ebbtide
