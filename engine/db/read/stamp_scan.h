// The secondary range lookup (keys by stamp), and an estimate of the number of keys that it finds.
#pragma once

#include <cstdint>

#include <engine/db.h>

namespace ebbtide {

/// See Db::scan_stamps. `lease` must be a leased view, or have no tree.
Result<StampedKeys> scan_stamps(const ReadView& lease, DeleteKey lo, DeleteKey hi, Bytes from, std::size_t max_keys,
                                std::uint64_t max_pages);

/// See Db::estimate_stamps. The view must be leased, or the caller holds its guard.
[[nodiscard]] std::uint64_t estimate_stamps(const ReadView& view, DeleteKey lo, DeleteKey hi);

}  // namespace ebbtide
