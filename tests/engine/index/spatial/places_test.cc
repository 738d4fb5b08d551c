// Tests of places: which numbers are places, their keys, and distances.
#include <catch2/catch.hpp>

#include <algorithm>
#include <limits>
#include <string>

#include <engine/spatial.h>
#include "engine/index/spatial/random_places.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr PlaceOrder kOrders[] = {PlaceOrder::kHilbert, PlaceOrder::kZOrder, PlaceOrder::kSimple};

std::string hex(Bytes bytes) {
  constexpr Bytes kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

PointBounds bounds_of(const Place& place) {
  PointBounds bounds;
  bounds.add(place_key(PlaceOrder::kSimple, place, ""), points_offset(PlaceOrder::kSimple));
  return bounds;
}

TEST_CASE("longitude or latitude is out of range, infinite or NaN: make_place() returns nothing") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  for (const double bad : {kNaN, kInfinity, -kInfinity, 181.0, -180.00000000000003, 1e300}) {
    CHECK(!make_place(bad, 0));
    CHECK(!make_place(0, bad));
  }
  CHECK(!make_place(0, 90.00000000000001421));
  CHECK(make_place(-180, 90));
}

TEST_CASE("place can be written in two ways, such as 180 and -180: both have the same key") {
  for (const PlaceOrder order : kOrders) {
    CHECK(place_key(order, *make_place(180, 1), "r") == place_key(order, *make_place(-180, 1), "r"));
    CHECK(place_key(order, *make_place(-0.0, -0.0), "r") == place_key(order, *make_place(0, 0), "r"));
  }
}

TEST_CASE("key of a place is encoded: its bytes are the recorded ones, and splitting it returns place and record") {
  const Place palermo = *make_place(13.361389, 38.115556);
  const std::string point = "c02ab907faa044afc0430eca89fc6da4", record_r = "72";
  CHECK(hex(place_key(PlaceOrder::kSimple, palermo, "r")) == point + record_r);
  CHECK(hex(place_key(PlaceOrder::kHilbert, palermo, "r")) == "75aa99e9f44e3fbe" + point + record_r);
  CHECK(hex(place_key(PlaceOrder::kZOrder, palermo, "r")) == "5a00227e5844eaeb" + point + record_r);
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    const Place place = random_place(random);
    for (const PlaceOrder order : kOrders) {
      Place split;
      Bytes record;
      const std::string key = place_key(order, place, "car:7");
      REQUIRE(split_place_key(order, key, &split, &record));
      REQUIRE(split == place);
      REQUIRE(key[0] != 0);
      REQUIRE(record == "car:7");
      REQUIRE(!split_place_key(order, Bytes(key).substr(0, points_offset(order) + kPointBytes - 1), &split, &record));
    }
  }
}

TEST_CASE("bounds of a point are decoded to a box: the box contains the point's place, and is at most 40 meters wide") {
  Random random(2);
  for (int i = 0; i < 20'000; ++i) {
    const Place place = random_place(random);
    const PlaceBox box = box_of(bounds_of(place));
    CAPTURE(place.lon, place.lat);
    REQUIRE(box.contains(place));
    REQUIRE(box.east - box.west < 0.0004);
    REQUIRE(box.north - box.south < 0.0004);
  }
}

TEST_CASE("bounds of points have any bytes: the decoded box has valid degrees") {
  for (const PointBounds& bounds : {PointBounds::everything(), PointBounds{0, 0, 0, 0}, PointBounds{~0u, ~0u, ~0u, ~0u}}) {
    const PlaceBox box = box_of(bounds);
    CHECK((box.west >= -180 && box.west <= box.east && box.east <= 180));
    CHECK((box.south >= -90 && box.south <= box.north && box.north <= 90));
  }
}

TEST_CASE("key too short for a point is added to bounds: the bounds contain every point") {
  PointBounds bounds = bounds_of({1, 1});
  bounds.add("short", 0);
  CHECK(bounds == PointBounds::everything());
}

TEST_CASE("least distance to a box is computed: it is at most the distance to any place in it, and close to the nearest") {
  Random random(3);
  for (int i = 0; i < 20'000; ++i) {
    const Place from = random_place(random), corner = random_place(random), other = nearby(random, corner);
    const PlaceBox box{std::min(corner.lon, other.lon), std::min(corner.lat, other.lat), std::max(corner.lon, other.lon),
                       std::max(corner.lat, other.lat)};
    const double least = least_distance(from, box);
    // Places in a grid of 9 x 9, with the edges, and random ones.
    double nearest = std::numeric_limits<double>::infinity();
    const auto look_at = [&](double x, double y) {
      const Place inside{std::clamp(box.west + (box.east - box.west) * x, box.west, box.east),
                         std::clamp(box.south + (box.north - box.south) * y, box.south, box.north)};
      nearest = std::min(nearest, place_distance(from, inside));
    };
    for (int x = 0; x <= 8; ++x) {
      for (int y = 0; y <= 8; ++y) look_at(x / 8.0, y / 8.0);
    }
    for (int k = 0; k < 20; ++k) look_at(random.fraction(), random.fraction());
    CAPTURE(from.lon, from.lat, box.west, box.south, box.east, box.north, least, nearest);
    REQUIRE(least <= nearest);
    const double degree = 111'300;
    const double step = ((box.east - box.west) + (box.north - box.south)) / 8 * degree;
    REQUIRE(least >= nearest - step - nearest * 1e-6 - 1);
  }
}

}  // namespace TEST_FILE
