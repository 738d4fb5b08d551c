// Fence pointers on the sort key: they find the tile that may have a key.
//
// Tile t begins at its separator. separator[0] is ""; separator[t] is the shortest string that is greater than every key of
// tile t - 1 and not greater than any key of tile t. If versions of one key are in both tiles, the separator is that key.
//
// In memory a tile costs 12 bytes, and its separator without the common prefix of the table's keys. The separator's first 8
// bytes after that prefix are also stored as a big-endian number; a search reads the other bytes only if the key has the same
// number. The numbers form a static B-tree of fan-out 16. A search reads one pair of cache lines per level, and all levels but
// the last two fit into the processor's cache. A search can be done in two steps, begin() and finish(), so that the caller does
// other work while the last level's cache lines are loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

/// Returns the shortest string s with below < s <= at. If both are equal (versions of one key), returns `at`.
std::string shortest_separator(Bytes below, Bytes at);

/// Immutable after build; thread-safe.
class Fences {
 public:
  Fences() = default;
  Fences(const Fences&) = delete;
  Fences& operator=(const Fences&) = delete;

  /// `separators`: the separators of all tiles, in order; the first is "", and all others begin with `prefix`.
  void build(std::string prefix, const std::vector<std::string>& separators);

  /// Returns the last tile whose separator is <= key. Requires size() > 0.
  [[nodiscard]] std::uint32_t find(Bytes key) const;
  /// find() in two steps, for a key that begins with prefix(). begin() searches all levels but the last, and prefetches the node
  /// that finish() reads. finish() takes the result of begin() for the same key.
  [[nodiscard]] std::uint32_t begin(Bytes key) const;
  [[nodiscard]] std::uint32_t finish(Bytes key, std::uint32_t begun) const;
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ends_.size()); }
  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  /// Returns the separator of a tile, with the common prefix.
  [[nodiscard]] std::string separator(std::uint32_t tile) const;
  [[nodiscard]] std::uint64_t memory_bytes() const;

 private:
  static constexpr std::uint32_t kFanout = 16;
  struct alignas(64) Node {
    std::int64_t numbers[kFanout];
  };
  static_assert(sizeof(Node) == 128, "two cache lines");
  struct Level {
    std::uint32_t first = 0, nodes = 0;  ///< index in nodes_ of the level's first node; number of the level's nodes
  };
  [[nodiscard]] Bytes stripped(std::uint32_t tile) const {
    const std::uint32_t begin = tile == 0 ? 0 : ends_[tile - 1];
    return Bytes(bytes_).substr(begin, ends_[tile] - begin);
  }
  [[nodiscard]] std::int64_t number(std::uint32_t tile) const { return leaves_[tile / kFanout].numbers[tile % kFanout]; }
  void build_levels(std::vector<std::int64_t> numbers);
  [[nodiscard]] std::uint32_t leaf_of(std::int64_t number) const;
  [[nodiscard]] std::uint32_t find_in(std::uint32_t leaf, std::int64_t number, Bytes key) const;

  std::string prefix_;
  std::string bytes_;                ///< separators without their prefix, one after the other
  std::vector<std::uint32_t> ends_;  ///< for each tile, the end of its separator in bytes_
  std::vector<Node> nodes_;          ///< level by level from the root; unused slots have the largest number
  /// Levels from the root down. The last level has one number for each tile; each other level has every 16th number of the next
  /// one.
  std::vector<Level> levels_;
  const Node* leaves_ = nullptr;  ///< the first node of the last level
};

}  // namespace ebbtide
