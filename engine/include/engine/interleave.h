// Interleaved bits, of which the Z-order codes of places are made.
#pragma once

#include <cstdint>

namespace ebbtide {

/// Returns a number whose bit 2 * i is bit i of `value`, and whose odd bits are 0. Thread-safe.
[[nodiscard]] constexpr std::uint64_t spread_bits(std::uint32_t value) {
  std::uint64_t bits = value;
  bits = (bits | (bits << 16)) & 0x0000ffff0000ffffULL;
  bits = (bits | (bits << 8)) & 0x00ff00ff00ff00ffULL;
  bits = (bits | (bits << 4)) & 0x0f0f0f0f0f0f0f0fULL;
  bits = (bits | (bits << 2)) & 0x3333333333333333ULL;
  return (bits | (bits << 1)) & 0x5555555555555555ULL;
}

}  // namespace ebbtide
