// The iterator over the visible keys of a view.
#pragma once

#include <memory>

#include <engine/iterator.h>
#include <engine/read_view.h>
#include "db/read/large_values.h"
#include "db/trees/counters.h"
#include "db/trees/lease_registry.h"

namespace ebbtide {

/// The counters to which an iterator adds its range reads when it is destroyed.
struct RangeTally {
  Counters* counters = nullptr;  ///< outlives the iterator; null: the reads are not counted
  DatabaseId database = 0;
};

/// Makes an iterator that keeps the lease alive. If the lease is null (the database has no tree), the iterator is empty.
std::unique_ptr<Iterator> new_db_iterator(std::shared_ptr<Lease> lease, Millis now, const IteratorOptions& options,
                                          const RangeTally& tally, std::shared_ptr<LargeValues> values);
/// Makes an iterator that never waits (IteratorOptions::resident). `view`: a pass view of ReadMode::kResident that has a tree and
/// a MissSet; it must be valid as long as the iterator.
std::unique_ptr<Iterator> new_resident_iterator(const ReadView& view, const IteratorOptions& options, const RangeTally& tally);

}  // namespace ebbtide
