// Points in keys, for searches by two coordinates.
//
// The keys of a tree have points if each key has two ordered numbers of 8 bytes (ordered_number() in engine/index.h), x and then
// y, at the same offset. A table stores the bounds of the points of each tile and of the whole table. A search skips tiles and
// tables whose bounds do not meet its shape. The engine does not know the meaning of the coordinates.
//
// Skipping is safe: all versions of a key, and its tombstones, have the same bytes and so the same point. If the point is in the
// shape, the search reads every tile with one of them. So a search never sees a version without the tombstone that deletes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <engine/bytes.h>

namespace ebbtide {

/// Stands for an offset if the keys of a tree have no points.
inline constexpr std::uint32_t kNoPoints = ~std::uint32_t{0};
inline constexpr std::size_t kPointBytes = 16;

/// A rectangle that encloses points. It stores the upper 32 bits of each coordinate. So a minimum is rounded down, and a maximum
/// stands for all numbers with the same upper bits.
struct PointBounds {
  std::uint32_t min_x = ~std::uint32_t{0}, max_x = 0, min_y = ~std::uint32_t{0}, max_y = 0;  ///< min_x > max_x: no point

  [[nodiscard]] static constexpr PointBounds everything() { return {0, ~std::uint32_t{0}, 0, ~std::uint32_t{0}}; }
  [[nodiscard]] constexpr bool empty() const { return min_x > max_x; }
  [[nodiscard]] constexpr bool encloses(const PointBounds& other) const {
    return other.empty() || (min_x <= other.min_x && other.max_x <= max_x && min_y <= other.min_y && other.max_y <= max_y);
  }
  void add(const PointBounds& other) {
    min_x = std::min(min_x, other.min_x);
    max_x = std::max(max_x, other.max_x);
    min_y = std::min(min_y, other.min_y);
    max_y = std::max(max_y, other.max_y);
  }
  /// Adds the point of a key. If the key is too short to have a point, the bounds then enclose everything.
  void add(Bytes key, std::uint32_t points_at) {
    if (key.size() < points_at + kPointBytes) return add(everything());
    const std::uint32_t x = upper_half(key.substr(points_at)), y = upper_half(key.substr(points_at + kPointBytes / 2));
    add(PointBounds{x, x, y, y});
  }
  bool operator==(const PointBounds&) const = default;

 private:
  [[nodiscard]] static std::uint32_t upper_half(Bytes number) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i) bits = bits << 8 | static_cast<unsigned char>(number[i]);
    return bits;
  }
};

/// The shape of a search, which an iterator uses to skip tables and tiles (IteratorOptions::points).
class PointFilter {
 public:
  /// `points_at`: the offset of the points in the keys of the tree (TreeSettings::points_at).
  explicit PointFilter(std::uint32_t points_at) : points_at_(points_at) {}
  virtual ~PointFilter() = default;
  PointFilter(const PointFilter&) = delete;
  PointFilter& operator=(const PointFilter&) = delete;

  /// Returns false only if no point of the shape is within the bounds. While an iterator uses the shape, it may become smaller,
  /// but never larger.
  [[nodiscard]] virtual bool meets(const PointBounds& bounds) const = 0;
  [[nodiscard]] std::uint32_t points_at() const { return points_at_; }

 private:
  const std::uint32_t points_at_;
};

}  // namespace ebbtide
