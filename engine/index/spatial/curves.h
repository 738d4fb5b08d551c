// Curves that pass through every cell of a square of 2^32 x 2^32 cells. A code is a cell's position on the curve.
//
// An aligned square of 2^n x 2^n cells is a contiguous, aligned range of 4^n codes on both curves.
#pragma once

#include <cstdint>
#include <string>

namespace ebbtide {

std::uint64_t hilbert_code(std::uint32_t x, std::uint32_t y);
/// Returns the Z-order code: alternating bits of x and y, from the highest on, x first.
std::uint64_t zorder_code(std::uint32_t x, std::uint32_t y);

/// Number of bits of the column and of the row of a place's cell, so codes are below 4^kCellBits. A degree of longitude has 2^22
/// columns, and a degree of latitude has 2^23 rows; a column is at most 27 mm wide. Scaling by a power of two and rounding down
/// are exact, so a place has the same cell on every machine.
inline constexpr int kCellBits = 31;
std::uint32_t column_of(double lon);
std::uint32_t row_of(double lat);

/// Keys store a code plus this number, so no key of a place begins with a zero byte.
inline constexpr std::uint64_t kFirstCode = std::uint64_t{1} << (2 * kCellBits);

/// Returns a code as 8 bytes that have the order of the codes.
std::string code_bytes(std::uint64_t code);

}  // namespace ebbtide
