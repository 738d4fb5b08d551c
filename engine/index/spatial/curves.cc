#include "index/spatial/curves.h"

#include <cmath>
#include <utility>

#include <engine/interleave.h>

namespace ebbtide {
namespace {

constexpr std::int64_t kColumnsPerDegree = std::int64_t{1} << 22, kRowsPerDegree = std::int64_t{1} << 23;
static_assert(360 * kColumnsPerDegree < std::int64_t{1} << kCellBits && 180 * kRowsPerDegree < std::int64_t{1} << kCellBits);

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

std::uint64_t zorder_code(std::uint32_t x, std::uint32_t y) { return spread_bits(x) << 1 | spread_bits(y); }

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
