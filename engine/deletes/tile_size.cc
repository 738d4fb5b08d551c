#include "deletes/tile_size.h"

#include <algorithm>
#include <cmath>

namespace ebbtide {

void TileSize::follow(const TileUse& total, std::uint64_t tree_pages, std::uint64_t runs) {
  in_vain_ += static_cast<double>(total.pages_in_vain - seen_.pages_in_vain) / pages_;
  iterators_ += static_cast<double>(total.iterators - seen_.iterators);
  range_deletes_ += static_cast<double>(total.range_deletes - seen_.range_deletes);
  seen_ = total;
  if (range_deletes_ == 0 || tree_pages == 0) return;
  const double reads = in_vain_ + iterators_ * static_cast<double>(std::max<std::uint64_t>(runs, 1));
  const double deletes = range_deletes_ * static_cast<double>(tree_pages);
  pages_ = deletes >= reads * kMost * kMost
               ? kMost
               : static_cast<std::uint32_t>(std::clamp<double>(std::round(std::sqrt(deletes / reads)), 1, kMost));
  if (range_deletes_ < kMemory) return;
  in_vain_ /= 2;
  iterators_ /= 2;
  range_deletes_ /= 2;
}

}  // namespace ebbtide
