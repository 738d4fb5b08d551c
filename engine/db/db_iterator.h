// A walk over the visible keys of a leased view.
#pragma once

#include <engine/iterator.h>
#include "db/db_impl.h"

namespace ebbtide {

/// The iterator keeps its lease. A null lease (a database without a tree) is empty. `counters` may be null, else outlives it.
std::unique_ptr<Iterator> new_db_iterator(std::shared_ptr<Lease> lease, Millis now, const IteratorOptions& options,
                                          ReadCounters* counters, std::shared_ptr<LargeValues> values);

}  // namespace ebbtide
