#include <engine/index.h>
#include <engine/spatial.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "base/coding.h"
#include "index/spatial/curves.h"

namespace ebbtide {
namespace {

constexpr double kDegreesPerRadian = 180.0 / std::numbers::pi;
/// Degrees by which the box around a circle is made larger than calculated, because of rounding: 0.1 mm.
constexpr double kSlackDegrees = 1e-9;

/// The most squares of a curve that cover a box. With more squares, their area is nearer to the box's, but for each square a
/// search makes a seek in every run. With at most 64, the area of the squares is on average less than 1.5 times the area of the
/// box.
constexpr std::uint64_t kMostSquares = 64;

/// Adds the boxes of an interval of longitudes, which crosses the antimeridian if west > east. Places have the longitude -180
/// instead of 180.
void add_boxes(double west, double east, double south, double north, std::vector<PlaceBox>* boxes) {
  if (west > east) {
    boxes->push_back({-180, south, east, north});
    boxes->push_back({west, south, 180, north});
    return;
  }
  if (east == 180 && west != -180) boxes->push_back({-180, south, -180, north});
  boxes->push_back({west, south, east, north});
}

/// The codes from `first` to `last`, both included.
struct CodeRange {
  std::uint64_t first, last;
};

/// Adds to `out` the codes of squares that cover the box, in no order. All squares have one size: the smallest size with which
/// kMostSquares are enough.
void add_squares(PlaceOrder order, const PlaceBox& box, std::vector<CodeRange>* out) {
  const std::uint64_t left = column_of(box.west), right = column_of(box.east);
  const std::uint64_t bottom = row_of(box.south), top = row_of(box.north);
  int size = 0;  // the squares have 2^size columns and rows
  const auto squares = [&] { return ((right >> size) - (left >> size) + 1) * ((top >> size) - (bottom >> size) + 1); };
  while (squares() > kMostSquares) ++size;
  const std::uint64_t inside = (std::uint64_t{1} << (2 * size)) - 1;  // size is at most kCellBits
  for (std::uint64_t column = left >> size; column <= right >> size; ++column) {
    for (std::uint64_t row = bottom >> size; row <= top >> size; ++row) {
      const auto x = static_cast<std::uint32_t>(column << size), y = static_cast<std::uint32_t>(row << size);
      const std::uint64_t code = kFirstCode | (order == PlaceOrder::kHilbert ? hilbert_code(x, y) : zorder_code(x, y));
      out->push_back({code & ~inside, code | inside});
    }
  }
}

/// Returns the smallest and the largest x of a box as ordered numbers: for PlaceOrder::kSimple, keys begin with x.
CodeRange numbers_of(const PlaceBox& box) { return {key_word(ordered_number(box.west)), key_word(ordered_number(box.east))}; }

std::vector<KeyRange> joined(std::vector<CodeRange> codes) {
  std::sort(codes.begin(), codes.end(), [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  std::vector<CodeRange> whole;
  for (const CodeRange& range : codes) {
    if (!whole.empty() && (range.first <= whole.back().last || range.first - whole.back().last == 1)) {
      whole.back().last = std::max(whole.back().last, range.last);
    } else {
      whole.push_back(range);
    }
  }
  std::vector<KeyRange> keys;
  for (const CodeRange& range : whole) {
    keys.push_back({code_bytes(range.first), code_bytes(range.last + 1)});  // neither codes nor degrees reach the last number
  }
  return keys;
}

}  // namespace

std::optional<PlaceShape> PlaceShape::box(double west, double south, double east, double north) {
  if (!make_place(west, south) || !make_place(east, north) || south > north) return std::nullopt;
  PlaceShape shape;
  add_boxes(west, east, south, north, &shape.boxes_);
  return shape;
}

std::optional<PlaceShape> PlaceShape::circle(const Place& center, double meters) {
  if (!(meters >= 0)) return std::nullopt;
  PlaceShape shape;
  shape.center_ = center;
  shape.meters_ = meters;
  const double angle = meters / kEarthRadiusMeters;
  const double rows = angle * kDegreesPerRadian + kSlackDegrees;
  const double south = std::max(center.lat - rows, -90.0), north = std::min(center.lat + rows, 90.0);
  // A circle that contains a pole has all longitudes. The circle is widest not at the latitude of its center, but nearer to the
  // pole.
  const double ratio = south == -90 || north == 90 ? 1 : std::sin(angle) / std::cos(center.lat / kDegreesPerRadian);
  const double columns = ratio >= 1 ? 180 : std::asin(ratio) * kDegreesPerRadian * (1 + kSlackDegrees) + kSlackDegrees;
  if (columns >= 180) {
    shape.boxes_.push_back({-180, south, 180, north});
    return shape;
  }
  double west = center.lon - columns, east = center.lon + columns;
  if (west < -180) west += 360;
  if (east > 180) east -= 360;
  add_boxes(west, east, south, north, &shape.boxes_);
  return shape;
}

PlaceShape PlaceShape::around(const Place& center) { return *circle(center, std::numeric_limits<double>::infinity()); }

bool PlaceShape::contains(const Place& place) const {
  if (center_) return place_distance(*center_, place) <= meters_;
  return std::any_of(boxes_.begin(), boxes_.end(), [&](const PlaceBox& box) { return box.contains(place); });
}

bool PlaceShape::meets(const PlaceBox& other) const {
  const bool near = std::any_of(boxes_.begin(), boxes_.end(), [&](const PlaceBox& box) { return box.meets(other); });
  return near && (!center_ || least_distance(*center_, other) <= meters_);
}

std::vector<PointBounds> PlaceShape::point_bounds() const {
  std::vector<PointBounds> out;
  for (const PlaceBox& box : boxes_) {
    PointBounds& bounds = out.emplace_back();
    bounds.add(ordered_number(box.west) + ordered_number(box.south), 0);
    bounds.add(ordered_number(box.east) + ordered_number(box.north), 0);
  }
  return out;
}

void PlaceShape::shrink(double meters) { meters_ = std::min(meters_, meters); }

std::vector<KeyRange> PlaceShape::key_ranges(PlaceOrder order) const {
  std::vector<CodeRange> codes;
  for (const PlaceBox& box : boxes_) {
    if (order == PlaceOrder::kSimple) {
      codes.push_back(numbers_of(box));
    } else {
      add_squares(order, box, &codes);
    }
  }
  return joined(std::move(codes));
}

}  // namespace ebbtide
