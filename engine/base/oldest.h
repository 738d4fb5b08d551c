// Functions for the older of two times, where 0 means "no time".
#pragma once

#include <algorithm>

#include <engine/types.h>

namespace ebbtide {

/// The birth that stands for an unknown one: the part of the log with the delete cannot be read. Such deletes are due at once,
/// and never count as having missed their deadline.
inline constexpr Millis kUnknownBirth = 1;

/// Returns the older of two times; 0 means "no time".
inline Millis older(Millis a, Millis b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

/// Sets `*oldest` to `time` if that is older; for both, 0 means "no time".
inline void keep_oldest(Millis* oldest, Millis time) { *oldest = older(*oldest, time); }

}  // namespace ebbtide
