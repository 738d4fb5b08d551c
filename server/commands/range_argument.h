// Parses a range of keys.
#pragma once

#include <cstddef>

#include <engine/result.h>
#include <engine/types.h>

namespace ebbtide {

struct Ctx;

/// Returns the range from argument `i`, included, to argument `i` + 1, excluded, as engine keys. "-" as the start and "+" as the
/// end leave that end open. "+" as the start, or "-" as the end, gives an empty range.
Result<KeyRange> range_argument(const Ctx& ctx, std::size_t i);

}  // namespace ebbtide
