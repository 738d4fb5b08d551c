// Fence pointers on the sort key: which tile can hold a key.
//
// Tile t begins at its separator: separator[0] is "" and separator[t] the shortest string that is greater than every key of tile
// t - 1 and no greater than any of tile t (if one key's versions go on from t - 1 to t, it is that key). In memory a tile costs
// 12 bytes and its separator without what all the table's keys begin with: the first 8 bytes of it as a number that compares like
// it, the rest only to tell equal numbers apart. The numbers are levels of a static B-tree of fan-out 16: a search is one pair of
// cache lines a level, and all levels but the last two are small enough to be in the processor's cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

/// The shortest string s with below < s <= at; `at` itself if they are equal (one key's versions).
std::string shortest_separator(Bytes below, Bytes at);

/// Immutable after build; thread-safe.
class Fences {
 public:
  /// `separators` in order, the first "", all others beginning with `prefix`.
  void build(std::string prefix, const std::vector<std::string>& separators);

  /// The last tile whose separator is <= key; 0 if there is none. Needs size() > 0.
  [[nodiscard]] std::uint32_t find(Bytes key) const;
  /// What find() reads first.
  void prefetch(Bytes key) const;
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ends_.size()); }
  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  /// The whole separator of a tile.
  [[nodiscard]] std::string separator(std::uint32_t tile) const;
  [[nodiscard]] std::uint64_t memory_bytes() const;

 private:
  static constexpr std::uint32_t kFanout = 16;
  [[nodiscard]] Bytes stripped(std::uint32_t tile) const {
    const std::uint32_t begin = tile == 0 ? 0 : ends_[tile - 1];
    return Bytes(bytes_).substr(begin, ends_[tile] - begin);
  }
  [[nodiscard]] std::uint32_t find_number(std::int64_t number) const;

  std::string prefix_;
  std::string bytes_;                              ///< stripped separators, one after the other
  std::vector<std::uint32_t> ends_;                ///< by tile, into bytes_
  std::vector<std::vector<std::int64_t>> levels_;  ///< [0] has all tiles' numbers; each level above every 16th; padded to 16
};

}  // namespace ebbtide
