// Lookups of one key in a view, without its large value. ReadView::get and the other lookups use them.
#pragma once

#include <engine/read_view.h>
#include "table/table_reader.h"

namespace ebbtide {

/// See ReadView::locate. The caller holds an epoch guard as long as `found` is used.
Status locate_entry(const ReadView& view, const LookupKey& key, Found* found);
/// The same for a view that has a tree. Counts only in `reads`; the caller checks whether the lease is revoked.
Status find_entry(const ReadView& view, const LookupKey& key, Found* found, ReadCounters* reads);

}  // namespace ebbtide
