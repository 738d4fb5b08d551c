// Parses a range of keys.
#pragma once

#include <cstddef>

#include <engine/result.h>
#include <engine/types.h>

namespace ebbtide {

struct Ctx;

/// Returns the range of engine keys from argument `i`, included, to argument `i` + 1, excluded. "-" as the start and "+" as the
/// end mean no bound. "+" as the start, or "-" as the end, gives an empty range.
Result<KeyRange> range_argument(const Ctx& ctx, std::size_t i);

}  // namespace ebbtide
