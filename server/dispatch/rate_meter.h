// The rate at which a counter grows, for INFO's instantaneous_*: the mean of the last kSamples samples, as in Redis.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ebbtide {

/// Not thread-safe.
class RateMeter {
 public:
  static constexpr std::size_t kSamples = 16;

  /// Adds a sample: the counter was `total` at `mono_nanos` on the monotonic clock. If `total` is lower than before, the counter
  /// was reset, and no rate is computed.
  void sample(std::uint64_t mono_nanos, std::uint64_t total) {
    if (last_nanos_ != 0 && mono_nanos > last_nanos_ && total >= last_total_) {
      rates_[next_] = static_cast<double>(total - last_total_) * 1e9 / static_cast<double>(mono_nanos - last_nanos_);
      next_ = (next_ + 1) % kSamples;
    }
    last_nanos_ = mono_nanos;
    last_total_ = total;
  }
  [[nodiscard]] double per_second() const {
    double sum = 0;
    for (const double rate : rates_) sum += rate;
    return sum / kSamples;
  }

 private:
  std::array<double, kSamples> rates_{};
  std::size_t next_ = 0;
  std::uint64_t last_nanos_ = 0, last_total_ = 0;
};

}  // namespace ebbtide
