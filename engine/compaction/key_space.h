// Maps keys to points of a line, in key order, for range partitioning (compaction/partitions.h).
//
// Mao's thesis, Eq. 5.4: a byte string s lies at lambda(s) = sum over i of (s[i] + 1) / 257^i, in [0, 1). Bytes count from one,
// and the base is 257, so that a string comes before all longer strings that begin with it. Here lambda is a fixed-point number
// of 128 bits: each weight is the weight before divided by 257 and rounded down. So the bytes after a position never weigh as
// much as one step at that position, and the order is exact, unlike in floating point. 257^15 < 2^128 < 257^16: fifteen bytes
// count, and keys that differ only in later bytes are one point. The common prefix of all keys would use up these bytes, so it is
// cut off first.
//
// Pure values; thread-safe.
#pragma once

#include <optional>
#include <string>

#include <engine/bytes.h>

namespace ebbtide {

__extension__ typedef unsigned __int128 KeyPosition;
inline constexpr KeyPosition kLastPosition = ~KeyPosition{0};

class KeySpace {
 public:
  /// Spreads the keys that begin with `prefix` over the line. Smaller keys are at position 0, larger keys at kLastPosition.
  explicit KeySpace(std::string prefix = {}) : prefix_(std::move(prefix)) {}

  /// Returns the position of a key. a < b implies position(a) <= position(b). The positions differ if both keys begin with the
  /// prefix and differ within the 15 bytes after it.
  [[nodiscard]] KeyPosition position(Bytes key) const;
  /// Returns the smallest possible key at or past `position`: the prefix and up to 15 bytes. No value if there is no such key.
  [[nodiscard]] std::optional<std::string> first_key_at(KeyPosition position) const;
  [[nodiscard]] const std::string& prefix() const { return prefix_; }

 private:
  std::string prefix_;
};

}  // namespace ebbtide
