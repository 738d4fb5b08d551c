// Lookups of one key in a view, without its large value. ReadView::get and its like are made of these.
#pragma once

#include <engine/read_view.h>
#include "table/table_reader.h"

namespace ebbtide {

/// As ReadView::locate. The caller holds a guard of the epoch, as long as `found` is used.
Status locate_entry(const ReadView& view, const LookupKey& key, Found* found);
/// The same for a view that has a tree; counted in `reads` alone, and the caller asks whether the lease is revoked.
Status find_entry(const ReadView& view, const LookupKey& key, Found* found, ReadCounters* reads);

}  // namespace ebbtide
