// Keys and values of the benchmarks that compare engines.
#pragma once

#include <cstdint>
#include <string>

#include <engine/bytes.h>
#include "base/random.h"

namespace ebbtide::bench {

/// A key of 16 bytes with its own buffer.
class Key {
 public:
  static constexpr std::size_t kBytes = 16;

  /// Makes key number i as 16 digits: keys are dense and ordered like the numbers.
  explicit Key(std::uint64_t number) {
    for (int i = kBytes - 1; i >= 0; --i, number /= 10) bytes_[i] = static_cast<char>('0' + number % 10);
  }
  /// Returns key number i at a scattered place of the whole domain, 16 hexadecimal digits: keys are sparse, in an order unrelated
  /// to the numbers.
  static Key scattered(std::uint64_t number) { return at(scatter(number)); }
  /// Returns the key at a place of that domain; keys are ordered like places.
  static Key at(std::uint64_t place) {
    Key key(0);
    for (int i = kBytes - 1; i >= 0; --i, place >>= 4) key.bytes_[i] = "0123456789abcdef"[place & 15];
    return key;
  }
  /// Returns the number of a scattered key.
  static std::uint64_t number_of(Bytes key) {
    std::uint64_t place = 0;
    for (const char c : key) place = place << 4 | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    return gather(place);
  }
  /// Returns the place of number i by a permutation of all 64-bit numbers (the last step of splitmix64); and its inverse.
  static constexpr std::uint64_t scatter(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  static constexpr std::uint64_t gather(std::uint64_t z) {
    z = (z ^ (z >> 31) ^ (z >> 62)) * 0x319642b2d24d8ec3u;
    z = (z ^ (z >> 27) ^ (z >> 54)) * 0x96de1b173f119089u;
    return z ^ (z >> 30) ^ (z >> 60);
  }

  [[nodiscard]] Bytes view() const { return {bytes_, sizeof bytes_}; }

 private:
  char bytes_[kBytes];
};
static_assert(Key::gather(Key::scatter(12345)) == 12345 && Key::scatter(Key::gather(67890)) == 67890);

/// Makes values as parts of one random buffer, so they cost no time to make and do not compress.
class Values {
 public:
  explicit Values(std::size_t bytes) : bytes_(bytes), pool_(kPool + bytes, '\0') {
    Random random(301);
    for (char& byte : pool_) byte = static_cast<char>(random.next());
  }
  [[nodiscard]] Bytes at(std::uint64_t i) const { return Bytes(pool_).substr((i * 7919) & (kPool - 1), bytes_); }

 private:
  static constexpr std::size_t kPool = std::size_t{1} << 20;
  std::size_t bytes_;
  std::string pool_;
};

}  // namespace ebbtide::bench
