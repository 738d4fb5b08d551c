// The iterator over the visible keys of a leased view.
#pragma once

#include <memory>

#include <engine/iterator.h>
#include "db/read/large_values.h"
#include "db/trees/lease_registry.h"
#include "table/table_reader.h"

namespace ebbtide {

/// Makes an iterator that holds the lease. If the lease is null (the database has no tree), the iterator is empty. `counters` may
/// be null; otherwise it must outlive the iterator.
std::unique_ptr<Iterator> new_db_iterator(std::shared_ptr<Lease> lease, Millis now, const IteratorOptions& options,
                                          ReadCounters* counters, std::shared_ptr<LargeValues> values);

}  // namespace ebbtide
