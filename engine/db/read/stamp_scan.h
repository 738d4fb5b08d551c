// Keys by stamp: the secondary range lookup, and an estimate of how many keys it finds.
#pragma once

#include <cstdint>

#include <engine/db.h>

namespace ebbtide {

/// As Db::scan_stamps. `lease` is a leased view, or has no tree.
Result<StampedKeys> scan_stamps(const ReadView& lease, DeleteKey lo, DeleteKey hi, Bytes from, std::size_t max_keys,
                                std::uint64_t max_pages);

/// As Db::estimate_stamps, for a view that is leased or whose guard the caller holds.
[[nodiscard]] std::uint64_t estimate_stamps(const ReadView& view, DeleteKey lo, DeleteKey hi);

}  // namespace ebbtide
