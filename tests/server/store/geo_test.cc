#include "store/geo.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>

namespace TEST_FILE {

using namespace ebbtide;

constexpr GeoPoint kPalermo{13.361389, 38.115556}, kCatania{15.087269, 37.502669};

std::string hash_of(const GeoPoint& point) {
  const auto text = geo_hash_text(static_cast<double>(geo_score(point)));
  return {text.data(), text.size()};
}

std::string shown(double distance) {
  char text[32];
  return {text, format_distance(distance, text)};
}

GeoArea circle(const GeoPoint& center, double radius) {
  GeoArea area;
  area.center = center;
  area.radius = radius;
  return area;
}

GeoArea box(const GeoPoint& center, double width, double height) {
  GeoArea area;
  area.center = center;
  area.is_box = true;
  area.width = width;
  area.height = height;
  return area;
}

/// Returns the members of a search over encoded bytes.
std::string search(const SortedSet& members, const GeoArea& area, std::uint64_t limit = 0) {
  const std::string bytes = encode(members);
  const auto cells = cells_of(area);
  const auto candidates = members_in_cells(bytes, cells);
  REQUIRE(candidates.is_ok());
  std::string out;
  for (const GeoMatch& match : matches_in(area, cells, *candidates, limit)) out += match.member.member;
  return out;
}

SortedSet sorted(SortedSet members) {
  std::sort(members.begin(), members.end(), is_before);
  return members;
}

double score(double longitude, double latitude) { return static_cast<double>(geo_score({longitude, latitude})); }

TEST_CASE("geo position is encoded as a score: the score is that of Redis's documentation", "[geo]") {
  CHECK(geo_score(kPalermo) == 3479099956230698);
  CHECK(geo_score(kCatania) == 3479447370796909);
  CHECK(hash_of(kPalermo) == "sqc8b49rny0");
  CHECK(hash_of(kCatania) == "sqdtr74hyu0");
}

TEST_CASE("geo score is decoded to a position: the position is within half a cell of the original", "[geo]") {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> longitudes(-180, 180), latitudes(-kMaxLatitude, kMaxLatitude);
  for (int i = 0; i < 10'000; ++i) {
    const GeoPoint point{longitudes(random), latitudes(random)};
    const GeoPoint back = geo_point(static_cast<double>(geo_score(point)));
    REQUIRE(std::fabs(back.longitude - point.longitude) <= 180.0 / (1 << 26) + 1e-12);
    REQUIRE(std::fabs(back.latitude - point.latitude) <= kMaxLatitude / (1 << 26) + 1e-12);
    REQUIRE(geo_score(back) == geo_score(point));
  }
}

TEST_CASE("geo point is at a limit of the map: it is on the map, but a point beyond the limit is not", "[geo]") {
  CHECK(is_on_map({180, kMaxLatitude}));
  CHECK(is_on_map({-180, -kMaxLatitude}));
  CHECK_FALSE(is_on_map({180.0001, 0}));
  CHECK_FALSE(is_on_map({0, 85.06}));
  CHECK_FALSE(is_on_map({std::numeric_limits<double>::infinity(), 0}));
  CHECK(geo_score({-180, -kMaxLatitude}) == 0);
  CHECK(geo_score({180, kMaxLatitude}) == 3ULL << 52);  // one column and one row beyond the last cell
}

TEST_CASE("geo score encodes no position, for example infinity: the decoded point is on the map", "[geo]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double each : {-1.0, -1e300, 1e300, kInfinity, -kInfinity, 9.3e18, 1.9e19}) CHECK(is_on_map(geo_point(each)));
  CHECK(geo_hash_number(kInfinity) == std::numeric_limits<std::int64_t>::min());
  CHECK(geo_hash_number(-1e300) == std::numeric_limits<std::int64_t>::min());
  CHECK(geo_hash_number(-1.9) == -1);
}

TEST_CASE("geo distance between two places is computed: it is that of Redis's documentation", "[geo]") {
  const GeoPoint a = geo_point(static_cast<double>(geo_score(kPalermo))), b = geo_point(static_cast<double>(geo_score(kCatania)));
  CHECK(shown(geo_distance(a, b)) == "166274.1516");
  CHECK(shown(geo_distance(a, b) / *meters_of_unit("Mi")) == "103.3182");
  CHECK(geo_distance(a, a) == 0);
  CHECK_FALSE(meters_of_unit("kmx"));
}

TEST_CASE("places are antipodes: their geo distance is half the circumference of the earth", "[geo]") {
  for (double latitude = -85; latitude <= 85; latitude += 0.01) {
    REQUIRE(geo_distance({0, latitude}, {180, -latitude}) == Approx(3.14159265358979 * 6372797.560856));
  }
}

TEST_CASE("geo distance is formatted: the text has four digits after the point", "[geo]") {
  CHECK(shown(0) == "0.0000");
  CHECK(shown(0.00004) == "0.0000");
  CHECK(shown(0.99996) == "1.0000");
  CHECK(shown(12.0305) == "12.0305");
  CHECK(shown(20020741.0001) == "20020741.0001");
}

TEST_CASE("area of a geo search is covered by cells: there are at most nine, and they do not overlap", "[geo]") {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> longitudes(-180, 180), latitudes(-kMaxLatitude, kMaxLatitude), scale(-3, 9);
  for (int i = 0; i < 20'000; ++i) {
    GeoPoint center{longitudes(random), latitudes(random)};
    if (i % 10 == 0) center.longitude = i % 20 == 0 ? 180 : -180;
    if (i % 7 == 0) center.latitude = i % 2 == 0 ? kMaxLatitude : -kMaxLatitude;
    const double size = std::pow(10, scale(random));
    auto cells = cells_of(i % 2 == 0 ? circle(center, size) : box(center, size, std::pow(10, scale(random))));
    REQUIRE(!cells.empty());
    REQUIRE(cells.size() <= 9);
    std::sort(cells.begin(), cells.end(), [](const CellScores& a, const CellScores& b) { return a.first < b.first; });
    for (std::size_t k = 1; k < cells.size(); ++k) REQUIRE(cells[k - 1].end <= cells[k].first);
  }
}

TEST_CASE("circle away from the poles is searched: the search finds as many members as a scan of all members", "[geo]") {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> near(-3, 3), scale(1, 5.3);
  for (int round = 0; round < 200; ++round) {
    SortedSet members;
    const GeoPoint center{near(random) + 40, near(random) + 50};
    for (int i = 0; i < 100; ++i)
      members.push_back({score(center.longitude + near(random), center.latitude + near(random)), "m"});
    const GeoArea area = circle(center, std::pow(10, scale(random)));
    std::size_t inside = 0;
    for (const ScoredMember& each : members) inside += geo_distance(center, geo_point(each.score)) <= area.radius ? 1 : 0;
    REQUIRE(search(sorted(members), area).size() == inside);
  }
}

TEST_CASE("circle crosses the antimeridian: members on both sides match", "[geo]") {
  const SortedSet members = sorted({{score(179.99, 0), "e"}, {score(-179.99, 0), "w"}, {score(0, 0), "x"}});
  CHECK(search(members, circle({179.999, 0}, 10'000)) == "ew");
  CHECK(search(members, box({-179.999, 0}, 10'000, 10'000)) == "we");
}

TEST_CASE("geo search has a box as its area: the box's width is measured at the latitude of each member", "[geo]") {
  const SortedSet members = sorted({{score(1, 0), "a"}, {score(1, 10), "b"}, {score(1, 20), "c"}});
  CHECK(search(members, box({0, 0}, 2 * 111'500.0, 2 * 2'250'000.0)) == "abc");
  CHECK(search(members, box({0, 0}, 2 * 110'000.0, 2 * 2'250'000.0)) == "bc");
  CHECK(search(members, box({0, 0}, 2 * 110'000.0, 2 * 1'200'000.0)) == "b");
}

TEST_CASE("geo search has a limit: it ends after this number of matches", "[geo]") {
  const SortedSet members = sorted({{score(0, 0), "a"}, {score(0.001, 0.001), "b"}, {score(0.002, 0.002), "c"}});
  CHECK(search(members, circle({0, 0}, 1000)) == "abc");
  CHECK(search(members, circle({0, 0}, 1000), 2) == "ab");
}

TEST_CASE("geo matches are sorted and limited: the nearest or the farthest are returned", "[geo]") {
  std::vector<GeoMatch> matches;
  for (const double distance : {5.0, 1.0, 4.0, 2.0, 3.0}) matches.push_back({{}, {}, distance});
  sort_matches(&matches, 2, false);
  CHECK(matches[0].distance == 1);
  CHECK(matches[1].distance == 2);
  sort_matches(&matches, 5, true);
  for (int i = 0; i < 5; ++i) CHECK(matches[static_cast<std::size_t>(i)].distance == 5 - i);
}

TEST_CASE("bytes of a sorted set are damaged: the geo search fails", "[geo]") {
  std::string bytes = encode(SortedSet{{1, "a"}, {2, "b"}});
  bytes.resize(bytes.size() - 1);
  CHECK_FALSE(members_in_cells(bytes, {{0, 10}}).is_ok());
}

TEST_CASE("member of a sorted set has a long name: a geo search returns it, or skips it and returns later members", "[geo]") {
  const std::string longer(200, 'l');
  const std::string bytes = encode(SortedSet{{1, longer}, {2, "a"}, {3, longer}, {5, "b"}});
  const auto skipped = members_in_cells(bytes, {{5, 6}, {2, 3}});
  REQUIRE(skipped.is_ok());
  REQUIRE(skipped->size() == 2);
  CHECK((*skipped)[0].member == "a");
  CHECK((*skipped)[1].member == "b");
  const auto found = members_in_cells(bytes, {{3, 4}});
  REQUIRE(found.is_ok());
  REQUIRE(found->size() == 1);
  CHECK(found->front().member == longer);
}

TEST_CASE("member that a geo search skips is damaged: the search fails", "[geo]") {
  const std::string whole = encode(SortedSet{{1, "abc"}, {2, std::string(200, 'x')}, {3, "c"}});
  for (std::size_t size = 3; size < whole.size(); ++size) CHECK_FALSE(members_in_cells(whole.substr(0, size), {{9, 10}}).is_ok());
}

}  // namespace TEST_FILE
