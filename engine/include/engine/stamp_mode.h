// The names of stamp modes in configuration, messages and dumps.
#pragma once

#include <engine/types.h>

namespace ebbtide {

/// Returns the mode's name in the configuration, for example "write_time"; "unknown" for a number that is no mode.
[[nodiscard]] constexpr const char* stamp_mode_name(StampMode mode) {
  switch (mode) {
    case StampMode::kWriteTime:
      return "write_time";
    case StampMode::kExpireTime:
      return "expire_time";
    case StampMode::kExplicit:
      return "explicit";
    case StampMode::kGiven:
      return "given";
  }
  return "unknown";
}

}  // namespace ebbtide
