// How many pages the delete tiles of new tables have (h of KiWi), where the setting leaves it to measurement.
//
// A tile of h pages lets a delete by the second key drop whole pages, so that such a delete costs pages / h; a lookup, whose h
// filters each may err, costs h times the pages looked at in vain; and an iterator begins in every run with a tile of h pages. Of
// the sum
//
//   range_deletes * pages / h  +  pages_in_vain * h  +  iterators * runs * h      (with pages_in_vain as it is at h = 1)
//
// the smallest is at h = sqrt(x), where x is the right side of Eq. 3 of Sarkar et al., "Lethe: A Tunable Delete-Aware LSM Engine",
// SIGMOD 2020: x itself is where such tiles begin to cost more than they spare.
#pragma once

#include <cstdint>

namespace ebbtide {

/// What a tree was used for since it was opened. Never falls.
struct TileUse {
  std::uint64_t pages_in_vain = 0;  ///< pages that lookups searched and that did not have the key
  std::uint64_t iterators = 0;      ///< that were made
  std::uint64_t range_deletes = 0;  ///< by the second key
};

/// Follows the use of one tree. A value; whoever shares it locks.
class TileSize {
 public:
  static constexpr std::uint32_t kMost = 64;
  /// Range deletes after which what was before counts half: lookups change, and each delete shows only its own gap.
  static constexpr double kMemory = 16;

  /// `pages` is what the tree's tables have; 1 to kMost.
  explicit TileSize(std::uint32_t pages = 1) : pages_(pages) {}

  /// `tree_pages` and `runs` are the tree's now. Before the first range delete of all there is nothing to go by: pages() stays.
  void follow(const TileUse& total, std::uint64_t tree_pages, std::uint64_t runs);

  /// h of tables that are written now.
  [[nodiscard]] std::uint32_t pages() const { return pages_; }

 private:
  std::uint32_t pages_;
  TileUse seen_;
  double in_vain_ = 0, iterators_ = 0, range_deletes_ = 0;  ///< sums that forget; pages in vain as they would be at h = 1
};

}  // namespace ebbtide
