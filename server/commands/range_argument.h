// A range of keys as clients give it.
#pragma once

#include <cstddef>

#include <engine/types.h>

namespace ebbtide {

struct Ctx;

/// [start, end) of the arguments `i` and `i` + 1, as engine keys. "-" as the start and "+" as the end leave that end open.
/// "+" as the start and "-" as the end give an empty range.
KeyRange range_argument(const Ctx& ctx, std::size_t i);

}  // namespace ebbtide
