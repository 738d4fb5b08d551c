// The secondary range lookup (keys by stamp), and an estimate of the number of keys that it finds.
#pragma once

#include <cstdint>

#include <engine/db.h>

namespace ebbtide {

/// Carries out Db::scan_stamps(). `lease` must be a leased view, or a view without a tree.
Result<StampedKeys> scan_stamps(const ReadView& lease, DeleteKey lo, DeleteKey hi, Bytes from, std::size_t max_keys,
                                std::uint64_t max_pages);

/// Carries out Db::estimate_stamps() on a view. If the view is a pass view, the caller must hold its PassGuard.
[[nodiscard]] std::uint64_t estimate_stamps(const ReadView& view, DeleteKey lo, DeleteKey hi);

}  // namespace ebbtide
