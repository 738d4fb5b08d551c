#include "index/spatial/curves.h"

#include <cmath>
#include <utility>

namespace ebbtide {
namespace {

constexpr std::int64_t kColumnsPerDegree = std::int64_t{1} << 22, kRowsPerDegree = std::int64_t{1} << 23;
static_assert(360 * kColumnsPerDegree < std::int64_t{1} << kCellBits && 180 * kRowsPerDegree < std::int64_t{1} << kCellBits);

/// Moves bit i of `value` to bit 2 * i.
std::uint64_t spread(std::uint32_t value) {
  std::uint64_t bits = value;
  bits = (bits | (bits << 16)) & 0x0000ffff0000ffffULL;
  bits = (bits | (bits << 8)) & 0x00ff00ff00ff00ffULL;
  bits = (bits | (bits << 4)) & 0x0f0f0f0f0f0f0f0fULL;
  bits = (bits | (bits << 2)) & 0x3333333333333333ULL;
  return (bits | (bits << 1)) & 0x5555555555555555ULL;
}

}  // namespace

// Each step takes one bit of x and one of y, which select a quadrant of the last step's square. In two of the four quadrants the
// curve is mirrored. Higher bits are not used again, so all bits may be inverted.
std::uint64_t hilbert_code(std::uint32_t x, std::uint32_t y) {
  std::uint64_t code = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const std::uint32_t right = x >> bit & 1, top = y >> bit & 1;
    code = code << 2 | ((3 * right) ^ top);
    if (top == 1) continue;
    if (right == 1) {
      x = ~x;
      y = ~y;
    }
    std::swap(x, y);
  }
  return code;
}

std::uint64_t zorder_code(std::uint32_t x, std::uint32_t y) { return spread(x) << 1 | spread(y); }

std::uint32_t column_of(double lon) {
  return static_cast<std::uint32_t>(static_cast<std::int64_t>(std::floor(lon * static_cast<double>(kColumnsPerDegree))) +
                                    180 * kColumnsPerDegree);
}

std::uint32_t row_of(double lat) {
  return static_cast<std::uint32_t>(static_cast<std::int64_t>(std::floor(lat * static_cast<double>(kRowsPerDegree))) +
                                    90 * kRowsPerDegree);
}

std::string code_bytes(std::uint64_t code) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(code >> shift & 0xff));
  return out;
}

}  // namespace ebbtide
