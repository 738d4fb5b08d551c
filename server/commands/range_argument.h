// Parses a range of keys.
#pragma once

#include <cstddef>

#include <engine/types.h>

namespace ebbtide {

struct Ctx;

/// The range from argument `i`, included, to argument `i` + 1, excluded, as engine keys. "-" as the start and "+" as the end
/// leave that end open. "+" as the start and "-" as the end give an empty range.
KeyRange range_argument(const Ctx& ctx, std::size_t i);

}  // namespace ebbtide
