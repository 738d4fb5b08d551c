// Places on the earth: their keys in an index tree, shapes, and searches (decision 0066).
//
// A place has a longitude in [-180, 180) and a latitude in [-90, 90], in degrees. The key of an entry is one of
//
//   simple            x:8 y:8 record              x, y: longitude and latitude as ordered numbers (ordered_number())
//   hilbert, zorder   code:8 x:8 y:8 record       code: the place's cell on a curve, big endian
//
// So keys of near places are mostly near each other. The code is computed from whole numbers only. So a place has the same key on
// every machine, and a tombstone written on another machine has it, too.
//
// A search walks over key ranges that contain all places of its shape. It skips tables and tiles whose bounds do not meet the
// shape (engine/points.h). It tests each remaining place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <engine/index.h>
#include <engine/iterator.h>
#include <engine/points.h>
#include <engine/result.h>
#include <engine/types.h>

namespace ebbtide {

/// The radius that Redis uses.
inline constexpr double kEarthRadiusMeters = 6372797.560856;

struct Place {
  double lon = 0, lat = 0;
  bool operator==(const Place&) const = default;
};

/// Returns the place, with -0 as 0 and the longitude 180 as -180; nullopt if a number is out of range, infinite or NaN.
std::optional<Place> make_place(double lon, double lat);
/// Returns the meters between two places by the haversine formula. The GEO commands use the same formula and radius of the earth.
double place_distance(const Place& a, const Place& b);

enum class PlaceOrder : std::uint8_t { kHilbert, kZOrder, kSimple };
/// Returns the order of an index of places; nullopt for other indexes.
[[nodiscard]] constexpr std::optional<PlaceOrder> place_order(IndexKind kind) {
  switch (kind) {
    case IndexKind::kHilbertPlace:
      return PlaceOrder::kHilbert;
    case IndexKind::kZOrderPlace:
      return PlaceOrder::kZOrder;
    case IndexKind::kSimplePlace:
      return PlaceOrder::kSimple;
    case IndexKind::kText:
    case IndexKind::kNumber:
      break;
  }
  return std::nullopt;
}
/// Returns the offset of the coordinates in the keys of this order, for TreeSettings::points_at.
[[nodiscard]] constexpr std::uint32_t points_offset(PlaceOrder order) { return order == PlaceOrder::kSimple ? 0 : 8; }

/// Returns a place's code on the curve; requires kHilbert or kZOrder.
std::uint64_t place_code(PlaceOrder order, const Place& place);
std::string place_key(PlaceOrder order, const Place& place, Bytes record);
/// Splits the key of an entry into the place and the record's key. Returns false if `key` is not the key of an entry.
bool split_place_key(PlaceOrder order, Bytes key, Place* place, Bytes* record);

/// A rectangle in degrees; its edges are part of it. west <= east.
struct PlaceBox {
  double west = -180, south = -90, east = 180, north = 90;

  [[nodiscard]] bool contains(const Place& p) const { return west <= p.lon && p.lon <= east && south <= p.lat && p.lat <= north; }
  [[nodiscard]] bool meets(const PlaceBox& b) const {
    return west <= b.east && b.west <= east && south <= b.north && b.south <= north;
  }
};
/// Returns a box, in degrees, that contains all places within the bounds.
PlaceBox box_of(const PointBounds& bounds);
/// Returns a lower bound, in meters, of the distance from `place` to any place in the box.
double least_distance(const Place& place, const PlaceBox& box);

/// The places in a box or in a circle.
class PlaceShape {
 public:
  /// The box may cross the antimeridian: then west > east. nullopt: a number is out of range, or south > north.
  static std::optional<PlaceShape> box(double west, double south, double east, double north);
  /// The places at most `meters` from `center`. nullopt: `meters` is negative or NaN.
  static std::optional<PlaceShape> circle(const Place& center, double meters);
  /// All places on the earth, as a circle around `center`.
  static PlaceShape around(const Place& center);

  [[nodiscard]] bool contains(const Place& place) const;
  /// Returns false only if no place of the shape is in the box.
  [[nodiscard]] bool meets(const PlaceBox& box) const;
  /// Returns bounds that enclose the shape's places, for a fast first test.
  [[nodiscard]] std::vector<PointBounds> point_bounds() const;
  /// Makes a circle smaller. Does not change its key ranges.
  void shrink(double meters);
  [[nodiscard]] const std::optional<Place>& center() const { return center_; }
  [[nodiscard]] double meters() const { return meters_; }
  /// Returns ranges, ascending and disjoint, that contain the keys of all places of the shape, and of few other places.
  [[nodiscard]] std::vector<KeyRange> key_ranges(PlaceOrder order) const;

 private:
  PlaceShape() = default;
  std::vector<PlaceBox> boxes_;  // enclose the shape; if there is no center, they are the shape
  std::optional<Place> center_;
  double meters_ = 0;
};

struct PlaceSearchOptions {
  PlaceOrder order = PlaceOrder::kHilbert;
  std::string from;             ///< to continue a search: keys before this are not shown
  std::uint64_t max_steps = 0;  ///< next() pauses after this many keys that it does not show; 0 = no limit
  bool resident = false;        ///< see IteratorOptions
  std::uint32_t pages_at_once = 1;
};

/// Walks over the entries of an index whose places are in a shape, in the order of their keys. Not thread-safe.
class PlaceSearch {
 public:
  /// Returns an iterator over the index tree with these options.
  using Open = std::function<std::unique_ptr<Iterator>(const IteratorOptions&)>;
  PlaceSearch(PlaceShape shape, PlaceSearchOptions options, const Open& open);
  ~PlaceSearch();
  PlaceSearch(const PlaceSearch&) = delete;
  PlaceSearch& operator=(const PlaceSearch&) = delete;

  /// Moves to the next entry. A new search is before its first entry.
  void next();
  [[nodiscard]] bool valid() const { return valid_; }
  /// True if the last next() stopped after max_steps. Then valid() is false, status() is ok, and the next call of next()
  /// continues.
  [[nodiscard]] bool paused() const { return paused_; }
  /// Returns the key at which another search can continue: the key of the current entry, or the key at which the search paused.
  [[nodiscard]] Bytes resume_key() const { return resume_key_; }
  [[nodiscard]] const Place& place() const { return place_; }
  /// Returns the key of the record; valid until the search moves.
  [[nodiscard]] Bytes record() const { return record_; }
  /// The current entry, for its stamp, expiry and seq. Requires valid().
  [[nodiscard]] const Iterator& entry() const { return *iterator_; }
  /// Makes the circle smaller: the search skips later entries that are farther away.
  void shrink(double meters);
  [[nodiscard]] Status status() const;

 private:
  class Filter;
  bool enter_range();

  const PlaceSearchOptions options_;
  std::unique_ptr<Filter> filter_;
  std::vector<KeyRange> ranges_;
  std::size_t range_ = 0;  // index of the range that the search is in, or enters next
  std::unique_ptr<Iterator> iterator_;
  bool started_ = false, valid_ = false, paused_ = false;
  std::string resume_key_;
  Place place_;
  Bytes record_;
};

struct NearPlace {
  double meters = 0;
  Place place;
  std::string record;
};

/// Returns the `count` entries that are nearest to `center`, or all if there are fewer. The nearest is first; entries at the same
/// distance are ordered by record. Searches circles that grow until one has enough entries. `options.max_steps` must be 0.
Result<std::vector<NearPlace>> nearest_places(const Place& center, std::size_t count, const PlaceSearchOptions& options,
                                              const PlaceSearch::Open& open);

}  // namespace ebbtide
