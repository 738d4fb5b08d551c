// The older of two times, where 0 means "no time".
#pragma once

#include <algorithm>

#include <engine/types.h>

namespace ebbtide {

/// The birth of deletes whose real birth is unknown, because their part of the log cannot be read. They are due at once and never count as
/// missed.
inline constexpr Millis kUnknownBirth = 1;

/// The older of two times; 0 is "none".
inline Millis older(Millis a, Millis b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

/// Moves `*oldest` back to `time` if that is earlier; for both, 0 is "none".
inline void keep_oldest(Millis* oldest, Millis time) { *oldest = older(*oldest, time); }

}  // namespace ebbtide
