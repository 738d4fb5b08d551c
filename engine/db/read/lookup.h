// Looks up one key in a view, without reading a large value. ReadView::get and other lookups use these functions.
#pragma once

#include <engine/read_view.h>
#include "table/table_reader.h"

namespace ebbtide {

/// Like ReadView::locate(). The caller must hold an epoch guard as long as it uses `found`.
Status locate_entry(const ReadView& view, const LookupKey& key, Found* found);
/// Like locate_entry(), for a view that has a tree. Adds to `reads` and to no other counter. The caller must check whether the
/// lease was revoked.
Status find_entry(const ReadView& view, const LookupKey& key, Found* found, ReadCounters* reads);

/// Returns the status of a read that has added a miss to the view's MissSet. This is kNotResident, or an error if the fetch of
/// the misses was refused for lack of memory.
Status missing_status(const ReadView& view);

}  // namespace ebbtide
