// Curves that pass through every cell of a square of 2^32 x 2^32 cells. A code is a cell's position on the curve.
//
// An aligned square of 2^n x 2^n cells is a contiguous, aligned range of 4^n codes on both curves.
#pragma once

#include <cstdint>
#include <string>

namespace ebbtide {

std::uint64_t hilbert_code(std::uint32_t x, std::uint32_t y);
/// The bits of x and y by turns, those of x first.
std::uint64_t zorder_code(std::uint32_t x, std::uint32_t y);

/// The column and the row of a place: 2^22 columns a degree of longitude, 2^23 rows a degree of latitude. A column is at most 27 mm wide.
/// Scaling by a power of two and rounding down are exact, so the same place has the same cell on every machine. Both numbers have at
/// most kCellBits bits, so codes are below 4^kCellBits.
inline constexpr int kCellBits = 31;
std::uint32_t column_of(double lon);
std::uint32_t row_of(double lat);

/// In keys, codes begin with this number. So no key of a place begins with a zero byte, in any order.
inline constexpr std::uint64_t kFirstCode = std::uint64_t{1} << (2 * kCellBits);

/// Returns the 8 bytes of a code, whose order is that of the codes.
std::string code_bytes(std::uint64_t code);

}  // namespace ebbtide
