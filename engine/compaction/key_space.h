// Keys as points of a line, in their order: what range partitionings halve (compaction/partitions.h).
//
// Mao's thesis, Eq. 5.4: a byte string s lies at lambda(s) = sum over i of (s[i] + 1) / 257^i, in [0, 1). The byte is counted from
// one, and the base is 257, so that a string lies before all that begin with it and go on. Here lambda is a fixed-point number of
// 128 bits: each weight is the one before divided by 257 and rounded down, so that what may follow a byte never weighs as much as
// the next byte would: order is kept exactly, where floating point loses it. 257^15 < 2^128 < 257^16: fifteen bytes count, keys
// that differ later only are one point. What all keys begin with would use them up, so it is cut off first: the prefix.
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
  /// Of the keys that begin with `prefix`. All others lie at its ends: at 0, or at kLastPosition.
  explicit KeySpace(std::string prefix = {}) : prefix_(std::move(prefix)) {}

  /// a < b implies position(a) <= position(b), and < if both begin with the prefix and differ within the 15 bytes after it.
  [[nodiscard]] KeyPosition position(Bytes key) const;
  /// The smallest key, of all there can be, at `position` or past it: its prefix and up to 15 bytes. None if there is no such key.
  [[nodiscard]] std::optional<std::string> first_key_at(KeyPosition position) const;
  [[nodiscard]] const std::string& prefix() const { return prefix_; }

 private:
  std::string prefix_;
};

}  // namespace ebbtide
