// The longest common subsequence of two texts, for LCS.
//
// The algorithm is the usual dynamic programming over prefixes. Of several longest subsequences it finds the one that Redis
// finds. Redis stores the whole table of lengths. This code stores one bit for the choice in each cell, and two rows of lengths,
// which takes 1/32 of the memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <engine/bytes.h>

namespace ebbtide {

/// A common part: [a_start, a_end] of the first text equals [b_start, b_end] of the second. Both ends are included.
struct LcsMatch {
  std::uint32_t a_start = 0, a_end = 0;
  std::uint32_t b_start = 0, b_end = 0;

  [[nodiscard]] std::uint32_t length() const { return a_end - a_start + 1; }
};

struct Lcs {
  std::uint32_t length = 0;
  std::string text;               ///< the subsequence itself
  std::vector<LcsMatch> matches;  ///< matches from the end of the texts to their beginning
};

/// Returns the number of cells in Redis's table for `a` and `b`. lcs() accepts up to kMaxLcsCells: Redis's limit at its default
/// proto-max-bulk-len, with 4 bytes a cell.
constexpr std::uint64_t lcs_cells(std::uint64_t a_bytes, std::uint64_t b_bytes) { return (a_bytes + 1) * (b_bytes + 1); }
inline constexpr std::uint64_t kMaxLcsCells = (std::uint64_t{512} << 20) / 4;

/// Take time proportional to the product of the lengths. lcs() takes an eighth of the product in bytes of memory, lcs_length()
/// only two rows. Both require lcs_cells(...) <= kMaxLcsCells.
Lcs lcs(Bytes a, Bytes b);
std::uint32_t lcs_length(Bytes a, Bytes b);

}  // namespace ebbtide
