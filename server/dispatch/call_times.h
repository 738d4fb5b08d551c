// Counts how long the calls of one command took, in a log-linear histogram for percentiles.
//
// Each power of two of nanoseconds is split into kParts buckets of equal width. So a bucket's width is at most 1/kParts of its
// lower bound. percentile() returns the middle of a bucket, which is within 1/(2 kParts) = 1.6 % of every time in it. A call that
// took longer than 2^kMaxBits ns (68 s) is stored as one of 68 s.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ebbtide {

/// One writer, any number of readers.
class CallTimes {
 public:
  static constexpr int kPartBits = 5;
  static constexpr std::uint64_t kParts = 1 << kPartBits;
  static constexpr int kMaxBits = 36;
  static constexpr std::size_t kBuckets = (kMaxBits - kPartBits) * kParts + kParts;

  static constexpr std::size_t bucket_of(std::uint64_t nanos) {
    const std::uint64_t capped = std::min(nanos, (std::uint64_t{1} << kMaxBits) - 1);
    const int shift = std::max(0, static_cast<int>(std::bit_width(capped)) - (kPartBits + 1));
    return static_cast<std::size_t>(shift) * kParts + static_cast<std::size_t>(capped >> shift);
  }
  /// Returns the middle of the bucket's range of times, in ns.
  static constexpr double middle_of(std::size_t bucket) {
    const std::size_t shift = bucket < 2 * kParts ? 0 : bucket / kParts - 1;
    const std::uint64_t first = static_cast<std::uint64_t>(bucket - shift * kParts) << shift;
    return static_cast<double>(first) + static_cast<double>((std::uint64_t{1} << shift) - 1) / 2;
  }

  void add(std::uint64_t nanos) {
    auto& n = counts_[bucket_of(nanos)];
    n.store(n.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// Adds the counts of this object to `sums`, an array of kBuckets counts.
  void add_to(std::span<std::uint64_t> sums) const {
    for (std::size_t i = 0; i < kBuckets; ++i) sums[i] += counts_[i].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kBuckets> counts_{};
};

/// `counts`: calls by bucket (CallTimes::bucket_of). Returns the time in ns that `percent` (0 to 100) of the calls did not
/// exceed; 0 if there are no calls.
inline double percentile(std::span<const std::uint64_t> counts, double percent) {
  std::uint64_t all = 0;
  for (const std::uint64_t n : counts) all += n;
  if (all == 0) return 0;
  const auto wanted = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(percent / 100 * static_cast<double>(all) + 0.5));
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    below += counts[i];
    if (below >= wanted) return CallTimes::middle_of(i);
  }
  return CallTimes::middle_of(counts.size() - 1);
}

}  // namespace ebbtide
