// Tests of shapes: which places they contain, and that neither key ranges nor bounds leave out any of these.
#include <catch2/catch.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "engine/index/spatial/random_places.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr PlaceOrder kOrders[] = {PlaceOrder::kHilbert, PlaceOrder::kZOrder, PlaceOrder::kSimple};

bool in_ranges(const std::vector<KeyRange>& ranges, Bytes key) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const KeyRange& r) { return key >= Bytes(r.start) && (r.end.empty() || key < Bytes(r.end)); });
}

PlaceShape random_shape(Random& random) {
  const Place at = random_place(random);
  if (random.one_in(2)) {
    constexpr double kMeters[] = {0, 1, 500, 30'000, 2e6, 1e7, 3e7};
    return *PlaceShape::circle(at, kMeters[random.uniform(7)] * random.fraction());
  }
  const Place other = nearby(random, at);
  return *PlaceShape::box(at.lon, std::min(at.lat, other.lat), other.lon, std::max(at.lat, other.lat));
}

bool has(const PlaceShape& shape, double lon, double lat) { return shape.contains(*make_place(lon, lat)); }

TEST_CASE("box is made of its bounds: it contains its edges, and may cross the antimeridian, which is 180 and -180") {
  const PlaceShape plain = *PlaceShape::box(10, -5, 20, 5);
  CHECK((has(plain, 10, -5) && has(plain, 20, 5) && !has(plain, 20.000001, 0) && !has(plain, 15, 5.000001)));
  const PlaceShape eastern = *PlaceShape::box(170, 0, 180, 1);
  CHECK((has(eastern, 180, 0) && has(eastern, -180, 0) && has(eastern, 170, 1) && !has(eastern, -179.999, 0)));
  const PlaceShape crossing = *PlaceShape::box(179, 0, -179, 1);
  CHECK((has(crossing, 180, 0) && has(crossing, 179.5, 0) && has(crossing, -179.5, 0) && !has(crossing, 0, 0)));
  const PlaceShape line = *PlaceShape::box(180, -90, -180, 90);
  CHECK((has(line, 180, 90) && !has(line, 179.9, 0) && !has(line, -179.9, 0)));
  const PlaceShape all = *PlaceShape::box(-180, -90, 180, 90);
  CHECK((has(all, 180, 90) && has(all, -180, -90) && has(all, 0, 0)));
}

TEST_CASE("bounds of a box or a radius are invalid: no shape is made") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  CHECK(!PlaceShape::box(0, 2, 1, 1));
  CHECK(!PlaceShape::box(kNaN, 0, 1, 1));
  CHECK(!PlaceShape::box(0, 0, 180.1, 1));
  CHECK(!PlaceShape::box(0, 0, 1, 90.1));
  CHECK(!PlaceShape::circle({0, 0}, -1));
  CHECK(!PlaceShape::circle({0, 0}, kNaN));
}

TEST_CASE("shape contains a place: the place's key is in the shape's key ranges, and bounds with the place meet the shape") {
  Random random(1);
  std::uint64_t inside = 0;
  for (int i = 0; i < 2000; ++i) {
    const PlaceShape shape = random_shape(random);
    for (const PlaceOrder order : kOrders) {
      const std::vector<KeyRange> ranges = shape.key_ranges(order);
      REQUIRE(!ranges.empty());
      REQUIRE(ranges.size() <= 128);
      for (std::size_t r = 1; r < ranges.size(); ++r) REQUIRE(ranges[r - 1].end < ranges[r].start);
      Place near = shape.center().value_or(random_place(random));
      for (int p = 0; p < 50; ++p) {
        const Place place = random.one_in(3) ? random_place(random) : nearby(random, near);
        if (!shape.contains(place)) continue;
        near = place;
        ++inside;
        CAPTURE(place.lon, place.lat, shape.meters(), static_cast<int>(order));
        REQUIRE(in_ranges(ranges, place_key(order, place, "r")));
        PointBounds bounds;
        bounds.add(place_key(order, place, "r"), points_offset(order));
        REQUIRE(shape.meets(box_of(bounds)));
        bounds.add(place_key(order, random_place(random), "r"), points_offset(order));
        REQUIRE(shape.meets(box_of(bounds)));
      }
    }
  }
  CHECK(inside > 20'000);
}

TEST_CASE("circle is small: its key ranges on the Hilbert and Z-order curves contain few places outside the circle") {
  Random random(2);
  std::uint64_t matches = 0, candidates[3] = {};
  for (int i = 0; i < 200; ++i) {
    const Place center{random.fraction() * 300 - 150, random.fraction() * 120 - 60};
    const PlaceShape shape = *PlaceShape::circle(center, 100'000);
    std::vector<KeyRange> ranges[3];
    for (int o = 0; o < 3; ++o) ranges[o] = shape.key_ranges(kOrders[o]);
    for (int p = 0; p < 2000; ++p) {
      const Place place{center.lon + random.fraction() * 20 - 10, center.lat + random.fraction() * 20 - 10};
      matches += shape.contains(place) ? 1 : 0;
      for (int o = 0; o < 3; ++o) candidates[o] += in_ranges(ranges[o], place_key(kOrders[o], place, "")) ? 1 : 0;
    }
  }
  CAPTURE(matches, candidates[0], candidates[1], candidates[2]);
  CHECK(matches > 1000);
  CHECK(candidates[0] < matches * 5 / 2);
  CHECK(candidates[1] < matches * 5 / 2);
  CHECK(candidates[2] > matches * 5);  // a strip from pole to pole: the bounds of tiles must do the rest
}

TEST_CASE("circle is shrunk: a smaller radius applies, and a larger one changes nothing") {
  PlaceShape shape = PlaceShape::around({0, 0});
  CHECK(has(shape, -180, 0));
  shape.shrink(1000);
  CHECK(!has(shape, 1, 0));
  shape.shrink(1e9);
  CHECK(!has(shape, 1, 0));
  CHECK(has(shape, 0.001, 0));
}

}  // namespace TEST_FILE
