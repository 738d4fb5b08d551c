// Functions for the older of two times, where 0 means "no time".
#pragma once

#include <algorithm>

#include <engine/types.h>

namespace ebbtide {

/// Stands for an unknown birth, of deletes in a part of the log that cannot be read. These deletes are due at once, and never
/// count as having missed their deadline.
inline constexpr Millis kUnknownBirth = 1;

/// Returns the older of two times; 0 means "no time".
inline Millis older(Millis a, Millis b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

/// Sets `*oldest` to `time` if `time` is older. 0 means "no time" for both.
inline void keep_oldest(Millis* oldest, Millis time) { *oldest = older(*oldest, time); }

}  // namespace ebbtide
