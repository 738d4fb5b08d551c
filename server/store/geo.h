// Points on the earth as scores of sorted sets: cells, distances, and the cells that a search visits. Pure functions.
//
// A cell halves longitude and latitude `step` times: bits of the column and of the row alternate, the column's first. A score is
// the number of a cell of 26 steps, of 52 bits. A cell of fewer steps is a range of scores. Latitudes end at those of the
// Mercator projection. The order of the floating-point operations is Redis's, since replies show their last bits. Replies also
// show the order in which a search visits cells, so that order is Redis's, too.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <engine/bytes.h>
#include <engine/result.h>

#include "store/collection/compact.h"
#include "store/zsets.h"

namespace ebbtide {

inline constexpr double kMaxLongitude = 180, kMaxLatitude = 85.05112878;

/// A point on the earth, in degrees.
struct GeoPoint {
  double longitude = 0, latitude = 0;
};

/// Returns true if the point is on the map: within kMaxLongitude and kMaxLatitude, both ways. Infinite coordinates are not.
bool is_on_map(const GeoPoint& point);
/// Returns the score of a point on the map.
std::uint64_t geo_score(const GeoPoint& point);
/// Returns the middle of the score's cell. Accepts any score: it is cut to an integer, and bits beyond 52 move the point, at most
/// to the edge of the map.
GeoPoint geo_point(double score);
/// Returns the score as an integer, converted as in Redis. Outside the range of int64, returns the lowest int64.
std::int64_t geo_hash_number(double score);
/// Returns the standard geohash of a score's point: 11 letters, the last of them always 0.
std::array<char, 11> geo_hash_text(double score);

/// Returns the distance on a sphere, in meters.
double geo_distance(const GeoPoint& a, const GeoPoint& b);
/// Returns the number of meters of a unit: m, km, ft or mi, in any case. nullopt: another text.
std::optional<double> meters_of_unit(Bytes unit);
/// Writes a distance with four digits after the point. Returns the length, at most 32 bytes.
std::size_t format_distance(double distance, char* out);

/// The area of a search, around its center. Lengths are in `unit` meters.
struct GeoArea {
  GeoPoint center;
  double unit = 1;
  bool is_box = false;
  double radius = 0;             ///< radius of a circle
  double width = 0, height = 0;  ///< sides of a box

  /// Returns the distance from the center in meters if the point is inside the area, else nullopt.
  [[nodiscard]] std::optional<double> distance_inside(const GeoPoint& point) const;
};

/// A range of scores: first <= score < end.
struct CellScores {
  double first = 0, end = 0;
};
/// Returns the ranges of scores that a search visits, in the order of the search. First comes the cell of the center, then those
/// of its neighbors that the area may reach. There are at most nine, and they do not overlap.
std::vector<CellScores> cells_of(const GeoArea& area);

/// Returns the same ranges in ascending order; adjoining ranges are joined. `cells` must not be empty.
std::vector<CellScores> joined(std::vector<CellScores> cells);

/// Returns the members of a sorted set's bytes whose scores are in one of the ranges, in order. They point into the bytes.
/// `cells` must not be empty. kCorruption if the bytes are damaged before the end of the last range.
Result<SortedSet> members_in_cells(Bytes sorted_set, const std::vector<CellScores>& cells);

struct GeoMatch {
  ScoredMember member;
  GeoPoint point;
  double distance = 0;  ///< from the center, in meters
};
/// Returns the candidates that are in the area: one range after another, each in the order of scores. Stops at `limit` matches;
/// 0: no limit.
std::vector<GeoMatch> matches_in(const GeoArea& area, const std::vector<CellScores>& cells, const SortedSet& candidates,
                                 std::uint64_t limit);
/// Moves the first `count` matches by distance to the front, sorted. If all matches are sorted, those of equal distance keep
/// their order; otherwise they get the order that Redis gives them.
void sort_matches(std::vector<GeoMatch>* matches, std::size_t count, bool descending);

}  // namespace ebbtide
