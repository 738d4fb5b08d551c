// Chooses the number of pages per delete tile of new tables (h of KiWi), if the setting is `auto`.
//
// With tiles of h pages a delete by the second key can drop whole pages and costs pages / h. A lookup asks h filters, so it reads
// h times as many pages because of false positives. An iterator begins in every run with a tile of h pages. The sum
//
//   range_deletes * pages / h  +  pages_in_vain * h  +  iterators * runs * h      (pages_in_vain: false positives, scaled to h =
//   1)
//
// is smallest at h = sqrt(x), where x is the right side of Eq. 3 of Sarkar et al., "Lethe: A Tunable Delete-Aware LSM Engine",
// SIGMOD 2020. Above h = x tiles cost more than they save.
#pragma once

#include <cstdint>

namespace ebbtide {

/// Counts of a tree's uses since it was opened. They never decrease.
struct TileUse {
  std::uint64_t pages_in_vain = 0;  ///< false positives: pages that lookups searched and that did not have the key
  std::uint64_t iterators = 0;      ///< created
  std::uint64_t range_deletes = 0;  ///< by the second key
};

/// Follows the use of one tree. A value; callers that share it need a lock.
class TileSize {
 public:
  static constexpr std::uint32_t kMost = 64;
  /// Number of range deletes after which earlier counts weigh half: the mix of lookups changes over time.
  static constexpr double kMemory = 16;

  /// `pages`: pages per tile of the tree's tables now, 1 to kMost.
  explicit TileSize(std::uint32_t pages = 1) : pages_(pages) {}

  /// Takes the counts, pages and runs of the tree now and updates pages(), which does not change before the first range delete.
  void follow(const TileUse& total, std::uint64_t tree_pages, std::uint64_t runs);

  /// Pages per tile of new tables.
  [[nodiscard]] std::uint32_t pages() const { return pages_; }

 private:
  std::uint32_t pages_;
  TileUse seen_;
  double in_vain_ = 0, iterators_ = 0, range_deletes_ = 0;  ///< decaying sums; false positives scaled to h = 1
};

}  // namespace ebbtide
