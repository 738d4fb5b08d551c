// A histogram of durations with logarithmic buckets, like HdrHistogram (Tene): every power of two is cut into 128 equal parts, so
// every value is known to within 0.8 %, and recording is an increment.
//
// Values below 128 have a bucket each. A value of b bits (b > 7) keeps its highest eight bits: the bucket's number consists of
// the length and of the seven bits after the leading bit, which makes buckets adjacent across powers of two.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace ebbtide::bench {

/// Not thread-safe: each thread has one, and they are merged for output. Units are the caller's; here they are nanoseconds.
class Histogram {
 public:
  static constexpr unsigned kPartBits = 7;
  static constexpr std::uint64_t kParts = std::uint64_t{1} << kPartBits;
  static constexpr std::size_t kBuckets = (64 - kPartBits + 1) * kParts;

  /// Returns the bucket of a value.
  static constexpr std::size_t bucket_of(std::uint64_t value) {
    if (value < kParts) return value;
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kPartBits;
    return (std::size_t{shift} + 1) * kParts + ((value >> shift) - kParts);
  }
  /// Returns the largest value in a bucket.
  static constexpr std::uint64_t highest_in(std::size_t bucket) {
    if (bucket < kParts) return bucket;
    const unsigned shift = static_cast<unsigned>(bucket / kParts) - 1;
    // Adding the width before subtracting 1 would overflow in the last bucket.
    return ((kParts + bucket % kParts) << shift) + ((std::uint64_t{1} << shift) - 1);
  }

  void record(std::uint64_t value) {
    ++counts_[bucket_of(value)];
    ++count_;
    sum_ += static_cast<double>(value);
    max_ = std::max(max_, value);
    min_ = std::min(min_, value);
  }
  void merge(const Histogram& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
    min_ = std::min(min_, other.min_);
  }
  void clear() { *this = Histogram(); }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t max() const { return max_; }  ///< exact; 0 if empty
  [[nodiscard]] std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  /// Returns a value that at least the fraction `q` of all values do not exceed: at most 0.8 % too large, and never above max();
  /// 0 if the histogram is empty. Requires 0 <= q <= 1.
  [[nodiscard]] std::uint64_t quantile(double q) const {
    if (count_ == 0) return 0;
    const double exact = q * static_cast<double>(count_);
    auto rank = static_cast<std::uint64_t>(exact);
    if (static_cast<double>(rank) < exact) ++rank;
    rank = std::clamp<std::uint64_t>(rank, 1, count_);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += counts_[i];
      if (seen >= rank) return std::min(highest_in(i), max_);
    }
    return max_;
  }
  /// Returns the number of values in a bucket.
  [[nodiscard]] std::uint64_t at(std::size_t bucket) const { return counts_[bucket]; }

 private:
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0, max_ = 0, min_ = std::numeric_limits<std::uint64_t>::max();
  double sum_ = 0;
};

}  // namespace ebbtide::bench
