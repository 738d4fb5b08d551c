// The older of two times, where 0 means "no time".
#pragma once

#include <algorithm>

#include <engine/types.h>

namespace ebbtide {

/// Birth of deletes in a part of the log that cannot be read, where nothing says how old they are: due at once, never counted as
/// missed.
inline constexpr Millis kUnknownBirth = 1;

/// The older of two times; 0 is "none".
inline Millis older(Millis a, Millis b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

/// Moves `*oldest` back to `time` if that is earlier; for both, 0 is "none".
inline void keep_oldest(Millis* oldest, Millis time) { *oldest = older(*oldest, time); }

}  // namespace ebbtide
