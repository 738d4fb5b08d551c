// Estimates the number of keys of a large database from a sample of its entries, for DBSIZE: a walk over all keys would take too
// long.
#pragma once

#include <cstdint>

#include <engine/read_view.h>
#include <engine/result.h>

namespace ebbtide {

/// Like Db::sample_keys(), for `view`, which must be leased and have a tree. The same seed gives the same sample.
Result<std::uint64_t> sample_keys(const ReadView& view, std::uint64_t seed);

}  // namespace ebbtide
