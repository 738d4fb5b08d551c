#include "store/lcs.h"

#include <algorithm>

namespace ebbtide {
namespace {

/// Fills the table row by row. Calls keep(i, j) for each cell where dropping the last byte of `a` gives the longer subsequence.
template <typename Keep>
std::uint32_t fill(Bytes a, Bytes b, Keep keep) {
  std::vector<std::uint32_t> above(b.size() + 1, 0), row(b.size() + 1, 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      if (a[i - 1] == b[j - 1]) {
        row[j] = above[j - 1] + 1;
      } else if (above[j] > row[j - 1]) {
        row[j] = above[j];
        keep(i, j);
      } else {
        row[j] = row[j - 1];
      }
    }
    std::swap(above, row);
  }
  return above[b.size()];
}

/// The choices made in all cells of the table, one bit each.
class Choices {
 public:
  Choices(std::size_t rows, std::size_t columns) : columns_(columns), bits_((rows * columns + 63) / 64, 0) {}
  void set(std::size_t i, std::size_t j) { bits_[at(i, j) / 64] |= std::uint64_t{1} << (at(i, j) % 64); }
  [[nodiscard]] bool get(std::size_t i, std::size_t j) const { return (bits_[at(i, j) / 64] >> (at(i, j) % 64) & 1) != 0; }

 private:
  [[nodiscard]] std::size_t at(std::size_t i, std::size_t j) const { return (i - 1) * columns_ + (j - 1); }
  const std::size_t columns_;
  std::vector<std::uint64_t> bits_;
};

}  // namespace

std::uint32_t lcs_length(Bytes a, Bytes b) {
  return fill(a, b, [](std::size_t, std::size_t) {});
}

Lcs lcs(Bytes a, Bytes b) {
  Lcs out;
  Choices shorten_a(a.size(), b.size());
  out.length = fill(a, b, [&](std::size_t i, std::size_t j) { shorten_a.set(i, j); });
  out.text.resize(out.length);
  std::size_t left = out.length;
  bool open = false;  // the latest match may still become longer
  for (std::size_t i = a.size(), j = b.size(); i > 0 && j > 0;) {
    if (a[i - 1] == b[j - 1]) {
      out.text[--left] = a[i - 1];
      --i;
      --j;
      if (open) {
        out.matches.back().a_start = static_cast<std::uint32_t>(i);
        out.matches.back().b_start = static_cast<std::uint32_t>(j);
      } else {
        const auto a_at = static_cast<std::uint32_t>(i), b_at = static_cast<std::uint32_t>(j);
        out.matches.push_back({.a_start = a_at, .a_end = a_at, .b_start = b_at, .b_end = b_at});
        open = true;
      }
      continue;
    }
    open = false;
    shorten_a.get(i, j) ? --i : --j;
  }
  return out;
}

}  // namespace ebbtide
