// Stores the ranges of delete keys, expiries and seqs of a table's pages, so that pages can be dropped without being read.
//
// Each bound is a 32-bit number of steps from the table's smallest value, so each kind of range costs 8 bytes per page. A kind
// that the table does not have takes no memory. The step is a power of two: 1 if the table's values span less than 2^31 (for
// times in ms: 24 days). With larger steps, minima are rounded down and maxima are rounded up. So a stored range may be wider
// than the true one, never narrower.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

/// Ranges whose numbers are stored in few bits, rounded outward. Immutable after build().
class RoundedRanges {
 public:
  struct Range {
    std::uint64_t min, max;
  };
  static constexpr Range kNone{1, 0};  ///< the empty range: min > max

  void build(const std::vector<Range>& ranges) {
    std::uint64_t low = ~std::uint64_t{0}, high = 0;
    for (const Range& r : ranges) {
      if (r.min > r.max) continue;
      low = std::min(low, r.min);
      high = std::max(high, r.max);
    }
    steps_.clear();
    if (low > high) return;
    base_ = low;
    // 31 bits instead of 32, so that the largest maximum fits into 32 bits even after rounding up.
    const int bits = std::bit_width(high - low);
    shift_ = static_cast<std::uint32_t>(std::max(0, bits - 31));
    steps_.reserve(ranges.size());
    for (const Range& r : ranges) {
      if (r.min > r.max) {
        steps_.push_back({1, 0});
        continue;
      }
      const std::uint64_t up = (std::uint64_t{1} << shift_) - 1;
      steps_.push_back(
          {static_cast<std::uint32_t>((r.min - base_) >> shift_), static_cast<std::uint32_t>((r.max - base_ + up) >> shift_)});
    }
  }
  [[nodiscard]] Range operator[](std::size_t i) const {
    if (steps_.empty() || steps_[i].min > steps_[i].max) return kNone;
    return {base_ + (std::uint64_t{steps_[i].min} << shift_), base_ + (std::uint64_t{steps_[i].max} << shift_)};
  }
  [[nodiscard]] std::uint64_t memory_bytes() const { return steps_.capacity() * sizeof(Steps); }

 private:
  struct Steps {
    std::uint32_t min, max;
  };
  std::uint64_t base_ = 0;
  std::uint32_t shift_ = 0;
  std::vector<Steps> steps_;  ///< empty if all ranges are empty
};

}  // namespace ebbtide
