// Chooses the number of pages per delete tile of new tables (h of KiWi), if the setting is `auto`.
//
// All costs are in pages. With tiles of h pages, a range delete by delete key drops most pages without reading them, and costs
// pages / h. A lookup tests h filters, so it reads h times as many pages because of false positives. An iterator reads a tile
// of h pages in every run when it begins. The sum
//
//   range_deletes * pages / h  +  pages_in_vain * h  +  iterators * runs * h,
//
// is smallest at h = sqrt(x), where x is the right side of Eq. 3 of Sarkar et al., "Lethe: A Tunable Delete-Aware LSM Engine",
// SIGMOD 2020. Above h = x, tiles cost more than they save. `pages_in_vain` are the false positives, divided by the h at which
// they were counted.
#pragma once

#include <cstdint>

namespace ebbtide {

/// Counts of the uses of a tree since the tree was opened. They never decrease.
struct TileUse {
  std::uint64_t pages_in_vain = 0;  ///< false positives: pages that lookups searched and that did not have the key
  std::uint64_t iterators = 0;      ///< number of iterators that were created
  std::uint64_t range_deletes = 0;  ///< number of range deletes by delete key
};

/// The choice for one tree, from its use so far. Copyable; callers that share an object need a lock.
class TileSize {
 public:
  static constexpr std::uint32_t kMost = 64;
  /// Counts lose half of their weight with each kMemory further range deletes, since the mix of operations changes over time.
  static constexpr double kMemory = 16;

  /// `pages`: pages per tile of the tree's present tables, 1 to kMost.
  explicit TileSize(std::uint32_t pages = 1) : pages_(pages) {}

  /// Updates pages() from the tree's present counts (`total`), number of pages (`tree_pages`) and number of runs (`runs`). Before
  /// the first range delete, pages() does not change.
  void follow(const TileUse& total, std::uint64_t tree_pages, std::uint64_t runs);

  /// Number of pages per tile for new tables.
  [[nodiscard]] std::uint32_t pages() const { return pages_; }

 private:
  std::uint32_t pages_;
  TileUse seen_;
  double in_vain_ = 0, iterators_ = 0, range_deletes_ = 0;  ///< decaying sums; in_vain_ is scaled to h = 1
};

}  // namespace ebbtide
