// The longest common subsequence of two texts, as LCS answers it.
//
// Dynamic programming over prefixes, as in any textbook; among the subsequences of greatest length the one that Redis finds, so
// that text and ranges are the same. Where Redis keeps the whole table of lengths, here only the choice made in each cell is
// kept, one bit, and two rows of lengths: 1/32 of the memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <engine/bytes.h>

namespace ebbtide {

/// A stretch that both texts have: [a_start, a_end] of the first, as long a one from b_start on of the second. Ends inclusive.
struct LcsMatch {
  std::uint32_t a_start = 0, a_end = 0;
  std::uint32_t b_start = 0, b_end = 0;

  [[nodiscard]] std::uint32_t length() const { return a_end - a_start + 1; }
};

struct Lcs {
  std::uint32_t length = 0;
  std::string text;               ///< the subsequence itself
  std::vector<LcsMatch> matches;  ///< from the end of the texts to their beginning
};

/// Cells of the table that Redis would take `a` and `b`, and the greatest number of cells that lcs() takes: Redis's limit at its
/// default proto-max-bulk-len, 4 bytes a cell.
constexpr std::uint64_t lcs_cells(std::uint64_t a_bytes, std::uint64_t b_bytes) { return (a_bytes + 1) * (b_bytes + 1); }
inline constexpr std::uint64_t kMaxLcsCells = (std::uint64_t{512} << 20) / 4;

/// Time: the product of the lengths; memory: an eighth of that in bytes, or, for the length alone, two rows. Needs
/// lcs_cells(...) <= kMaxLcsCells.
Lcs lcs(Bytes a, Bytes b);
std::uint32_t lcs_length(Bytes a, Bytes b);

}  // namespace ebbtide
