// The schedule of an open-loop generator, independent of the server: intended start times and keys of requests.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/random.h"

namespace ebbtide::bench {

/// Arrival times at a fixed mean rate: with equal gaps, or as a Poisson process (exponential gaps). They do not depend on the
/// time of the calls, so a stall of server or generator removes no request from the schedule.
class Arrivals {
 public:
  /// Times are in nanoseconds, from `begin_ns` on. Requires per_second > 0.
  Arrivals(double per_second, bool poisson, std::int64_t begin_ns, std::uint64_t seed)
      : gap_ns_(1e9 / per_second), poisson_(poisson), begin_ns_(begin_ns), random_(seed) {
    pop();
  }
  /// Returns the next arrival time.
  [[nodiscard]] std::int64_t next_ns() const { return begin_ns_ + static_cast<std::int64_t>(offset_ns_); }
  void pop() {
    // 1 - fraction is in (0, 1], so the logarithm is finite.
    offset_ns_ += poisson_ ? -std::log(1.0 - random_.fraction()) * gap_ns_ : gap_ns_;
  }

 private:
  double gap_ns_;
  bool poisson_;
  std::int64_t begin_ns_;
  double offset_ns_ = 0;
  Random random_;
};

/// A permutation of [0, n) that takes no memory: four rounds of a Feistel network over the next even power of two, repeated until
/// the result is below n (cycle walking; Black and Rogaway 2002). For fills in an order that looks random and writes each key
/// once.
class Shuffle {
 public:
  Shuffle(std::uint64_t n, std::uint64_t seed) : n_(n) {
    while ((std::uint64_t{1} << (2 * half_bits_)) < n) ++half_bits_;
    Random random(seed);
    for (std::uint64_t& key : keys_) key = random.next();
  }
  /// Returns the image of i, which is below n. Requires i < n.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t i) const {
    do i = once(i);
    while (i >= n_);
    return i;
  }

 private:
  [[nodiscard]] std::uint64_t once(std::uint64_t x) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = x >> half_bits_, right = x & mask;
    for (const std::uint64_t key : keys_) {
      std::uint64_t mixed = (right ^ key) * 0x9e3779b97f4a7c15u;
      mixed ^= mixed >> 29;
      mixed *= 0xbf58476d1ce4e5b9u;
      const std::uint64_t next = left ^ ((mixed >> 31) & mask);
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }
  std::uint64_t n_;
  unsigned half_bits_ = 1;
  std::uint64_t keys_[4];
};

}  // namespace ebbtide::bench
