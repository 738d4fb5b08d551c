// Random numbers that depend on a seed only (xoshiro256**, seeded by splitmix64; public domain algorithms by Blackman and Vigna).
#pragma once

#include <bit>
#include <cstdint>

namespace ebbtide {

/// Not thread-safe; each owner has its own object.
class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (auto& word : state_) {
      seed += 0x9e3779b97f4a7c15u;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      word = z ^ (z >> 31);
    }
  }
  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }
  /// Returns a uniformly distributed number in [0, n); n > 0.
  std::uint64_t uniform(std::uint64_t n) {
    __extension__ using Wide = unsigned __int128;  // the high half of the product: no division, and the bias is negligible
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * n) >> 64);
  }
  /// Returns true with probability 1 / n; n > 0.
  bool one_in(std::uint64_t n) { return uniform(n) == 0; }
  /// Returns a uniformly distributed number in [0, 1).
  double fraction() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_[4];
};

}  // namespace ebbtide
