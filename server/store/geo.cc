#include "store/geo.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>

#include <engine/interleave.h>

#include "store/numbers.h"

namespace ebbtide {
namespace {

constexpr int kScoreSteps = 26;
constexpr double kEarthRadius = 6372797.560856;
constexpr double kRadiansPerDegree = 3.14159265358979323846 / 180.0;
/// Half the length of the equator in the Mercator projection, in meters; Redis's value.
constexpr double kHalfEquator = 20037726.37;

double radians(double degrees) { return degrees * kRadiansPerDegree; }
double degrees(double radians) { return radians / kRadiansPerDegree; }

/// The inverse of spread_bits(). Ignores the odd bits.
std::uint32_t gather(std::uint64_t bits) {
  bits &= 0x5555555555555555ULL;
  bits = (bits | (bits >> 1)) & 0x3333333333333333ULL;
  bits = (bits | (bits >> 2)) & 0x0f0f0f0f0f0f0f0fULL;
  bits = (bits | (bits >> 4)) & 0x00ff00ff00ff00ffULL;
  bits = (bits | (bits >> 8)) & 0x0000ffff0000ffffULL;
  return static_cast<std::uint32_t>(bits | (bits >> 16));
}

/// The degrees from `low` to `high`, divided into cells.
struct Axis {
  double low, high;

  /// Requires low <= degree <= high. For `high` itself, returns the number after the last cell.
  [[nodiscard]] std::uint32_t cell_of(double degree, int step) const {
    return static_cast<std::uint32_t>((degree - low) / (high - low) * static_cast<double>(1ULL << step));
  }
  /// Returns the degree at which a cell begins. Cell numbers wrap at 32 bits.
  [[nodiscard]] double edge(std::uint32_t cell, int step) const {
    return low + (cell * 1.0 / static_cast<double>(1ULL << step)) * (high - low);
  }
  [[nodiscard]] double middle(std::uint32_t cell, int step) const { return (edge(cell, step) + edge(cell + 1, step)) / 2; }
};

constexpr Axis kColumns{-kMaxLongitude, kMaxLongitude}, kRows{-kMaxLatitude, kMaxLatitude}, kStandardRows{-90, 90};

struct Cell {
  std::uint32_t column = 0, row = 0;
  int step = 0;

  [[nodiscard]] std::uint64_t bits() const { return spread_bits(row) | (spread_bits(column) << 1); }
  [[nodiscard]] double west() const { return kColumns.edge(column, step); }
  [[nodiscard]] double east() const { return kColumns.edge(column + 1, step); }
  [[nodiscard]] double south() const { return kRows.edge(row, step); }
  [[nodiscard]] double north() const { return kRows.edge(row + 1, step); }

  /// Returns the cell that is `columns` to the east and `rows` to the north of this one. Both directions wrap.
  [[nodiscard]] Cell moved(int columns, int rows) const {
    const std::uint32_t mask = (std::uint32_t{1} << step) - 1;
    Cell cell = *this;
    if (columns != 0) cell.column = (column + static_cast<std::uint32_t>(columns)) & mask;
    if (rows != 0) cell.row = (row + static_cast<std::uint32_t>(rows)) & mask;
    return cell;
  }
  [[nodiscard]] CellScores scores() const {
    const int shift = 2 * (kScoreSteps - step);
    return {static_cast<double>(bits() << shift), static_cast<double>((bits() + 1) << shift)};
  }
};

Cell cell_of(const GeoPoint& point, int step) {
  return {kColumns.cell_of(point.longitude, step), kRows.cell_of(point.latitude, step), step};
}

/// Converts a score to an unsigned integer like an x86-64 processor, even where C++ leaves the result undefined.
std::uint64_t score_bits(double score) {
  constexpr double kTop = 9223372036854775808.0;  // 2^63
  if (score < kTop) return static_cast<std::uint64_t>(geo_hash_number(score));
  return static_cast<std::uint64_t>(geo_hash_number(score - kTop)) ^ (std::uint64_t{1} << 63);
}

double latitude_distance(double a, double b) { return kEarthRadius * std::fabs(radians(b) - radians(a)); }

/// The smallest rectangle of degrees around an area. As in Redis, it is wrong for areas beyond a pole.
struct Bounds {
  double west, south, east, north;
};

Bounds bounds_of(const GeoArea& area) {
  const double height = area.unit * (area.is_box ? area.height / 2 : area.radius);
  const double width = area.unit * (area.is_box ? area.width / 2 : area.radius);
  const auto& [longitude, latitude] = area.center;
  const double rows = degrees(height / kEarthRadius);
  // The side of the area that is nearer to its pole spans more degrees.
  const double widest = latitude < 0 ? latitude - rows : latitude + rows;
  const double columns = degrees(width / kEarthRadius / std::cos(radians(widest)));
  return {longitude - columns, latitude - rows, longitude + columns, latitude + rows};
}

/// Returns the number of steps at which a cell is about as large as the area; fewer steps near the poles, where meridians meet.
int estimated_steps(double meters, double latitude) {
  if (meters == 0) return kScoreSteps;
  int step = 1;
  for (; meters < kHalfEquator; meters *= 2) ++step;
  step -= 2;
  if (std::fabs(latitude) > 66) --step;
  if (std::fabs(latitude) > 80) --step;
  return std::clamp(step, 1, kScoreSteps);
}

/// Returns the cell in the middle of the search. With its neighbors it covers the bounds.
Cell middle_cell(const GeoArea& area, const Bounds& bounds) {
  const double meters =
      area.unit *
      (area.is_box ? std::sqrt((area.width / 2) * (area.width / 2) + (area.height / 2) * (area.height / 2)) : area.radius);
  const int steps = estimated_steps(meters, area.center.latitude);
  const Cell cell = cell_of(area.center, steps);
  const bool too_small = cell.moved(0, 1).north() < bounds.north || cell.moved(0, -1).south() > bounds.south ||
                         cell.moved(1, 0).east() < bounds.east || cell.moved(-1, 0).west() > bounds.west;
  return too_small && steps > 1 ? cell_of(area.center, steps - 1) : cell;
}

struct Direction {
  int columns, rows;
};
/// The cell in the middle and its neighbors, in the order of the search.
constexpr Direction kDirections[] = {{0, 0}, {0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1}};

}  // namespace

// --- points and scores

bool is_on_map(const GeoPoint& point) {
  return std::fabs(point.longitude) <= kMaxLongitude && std::fabs(point.latitude) <= kMaxLatitude;
}

std::uint64_t geo_score(const GeoPoint& point) { return cell_of(point, kScoreSteps).bits(); }

GeoPoint geo_point(double score) {
  const std::uint64_t bits = score_bits(score);
  return {std::clamp(kColumns.middle(gather(bits >> 1), kScoreSteps), -kMaxLongitude, kMaxLongitude),
          std::clamp(kRows.middle(gather(bits), kScoreSteps), -kMaxLatitude, kMaxLatitude)};
}

std::int64_t geo_hash_number(double score) {
  constexpr double kTop = 9223372036854775808.0;  // 2^63
  return score >= -kTop && score < kTop ? static_cast<std::int64_t>(score) : std::numeric_limits<std::int64_t>::min();
}

std::array<char, 11> geo_hash_text(double score) {
  constexpr Bytes kLetters = "0123456789bcdefghjkmnpqrstuvwxyz";
  const GeoPoint point = geo_point(score);
  // In the geohash standard, rows reach from pole to pole.
  const std::uint64_t bits = Cell{.column = kColumns.cell_of(point.longitude, kScoreSteps),
                                  .row = kStandardRows.cell_of(point.latitude, kScoreSteps),
                                  .step = kScoreSteps}
                                 .bits();
  std::array<char, 11> text;
  for (std::size_t i = 0; i < 10; ++i) text[i] = kLetters[(bits >> (47 - 5 * i)) & 31];
  text[10] = '0';  // 52 bits are ten letters and two more bits, for which Redis writes a 0
  return text;
}

// --- distances

double geo_distance(const GeoPoint& a, const GeoPoint& b) {
  const double v = std::sin((radians(b.longitude) - radians(a.longitude)) / 2);
  if (v == 0) return latitude_distance(a.latitude, b.latitude);
  const double from = radians(a.latitude), to = radians(b.latitude);
  const double u = std::sin((to - from) / 2);
  const double square = u * u + std::cos(from) * std::cos(to) * v * v;
  return 2.0 * kEarthRadius * std::asin(std::min(std::sqrt(square), 1.0));  // rounding may give more than 1
}

std::optional<double> meters_of_unit(Bytes unit) {
  if (equal_ignoring_case(unit, "m")) return 1;
  if (equal_ignoring_case(unit, "km")) return 1000;
  if (equal_ignoring_case(unit, "ft")) return 0.3048;
  if (equal_ignoring_case(unit, "mi")) return 1609.34;
  return std::nullopt;
}

std::size_t format_distance(double distance, char* out) {
  constexpr std::int64_t kScale = 10'000;
  const std::int64_t scaled = std::llrint(distance * static_cast<double>(kScale));
  char* point = std::to_chars(out, out + 20, scaled / kScale).ptr;
  *point = '.';
  std::int64_t digits = scaled % kScale;
  for (int i = 4; i > 0; --i, digits /= 10) point[i] = static_cast<char>('0' + digits % 10);
  return static_cast<std::size_t>(point + 5 - out);
}

// --- areas

std::optional<double> GeoArea::distance_inside(const GeoPoint& point) const {
  if (!is_box) {
    const double distance = geo_distance(center, point);
    return distance > radius * unit ? std::nullopt : std::optional(distance);
  }
  if (latitude_distance(point.latitude, center.latitude) > height * unit / 2) return std::nullopt;
  if (geo_distance(point, {center.longitude, point.latitude}) > width * unit / 2) return std::nullopt;
  return geo_distance(center, point);
}

std::vector<CellScores> cells_of(const GeoArea& area) {
  const Bounds bounds = bounds_of(area);
  const Cell middle = middle_cell(area, bounds);
  // A cell of one step is a quarter of the map, so the area may reach all of its neighbors.
  const bool excludes = middle.step >= 2;
  const bool no_south = excludes && middle.south() < bounds.south, no_north = excludes && middle.north() > bounds.north;
  const bool no_west = excludes && middle.west() < bounds.west, no_east = excludes && middle.east() > bounds.east;
  std::vector<CellScores> cells;
  std::optional<std::uint64_t> last;
  for (const auto& [columns, rows] : kDirections) {
    if ((rows < 0 && no_south) || (rows > 0 && no_north) || (columns < 0 && no_west) || (columns > 0 && no_east)) continue;
    const Cell cell = middle.moved(columns, rows);
    if (last == cell.bits()) continue;  // with one step, the neighbors on both sides are the same cell
    last = cell.bits();
    cells.push_back(cell.scores());
  }
  return cells;
}

// --- searches

std::vector<CellScores> joined(std::vector<CellScores> cells) {
  std::sort(cells.begin(), cells.end(), [](const CellScores& a, const CellScores& b) { return a.first < b.first; });
  std::size_t last = 0;
  for (const CellScores& each : cells) {
    if (each.first > cells[last].end) {
      cells[++last] = each;
    } else {
      cells[last].end = std::max(cells[last].end, each.end);
    }
  }
  if (!cells.empty()) cells.resize(last + 1);
  return cells;
}

Result<SortedSet> members_in_cells(Bytes sorted_set, const std::vector<CellScores>& cells) {
  const std::vector<CellScores> ranges = joined(cells);
  TRY_ASSIGN(reader, CompactReader::open(sorted_set, CollectionType::kSortedSet));
  SortedSet members;
  auto range = ranges.begin();
  reader.skip_below(range->first);
  for (ScoredMember each; reader.next(&each);) {
    if (each.score >= range->end) {
      while (range != ranges.end() && each.score >= range->end) ++range;
      if (range == ranges.end()) return members;
    }
    if (each.score >= range->first) {
      members.push_back(each);
    } else {
      reader.skip_below(range->first);
    }
  }
  TRY(reader.status());
  return members;
}

std::vector<GeoMatch> matches_in(const GeoArea& area, const std::vector<CellScores>& cells, const SortedSet& candidates,
                                 std::uint64_t limit) {
  std::vector<GeoMatch> matches;
  for (const CellScores& cell : cells) {
    const Places places = places_in(candidates, ScoreRange{{cell.first, false}, {cell.end, true}});
    for (std::size_t i = places.begin; i < places.end; ++i) {
      const GeoPoint point = geo_point(candidates[i].score);
      if (const auto distance = area.distance_inside(point)) matches.push_back({candidates[i], point, *distance});
      if (limit != 0 && matches.size() >= limit) return matches;
    }
  }
  return matches;
}

namespace {

using Match = std::vector<GeoMatch>::iterator;

/// Sorts matches by distance as Redis does if a reply has only the first ones: by the quicksort of Bentley and McIlroy in BSD.
/// That sort is not stable, and replies show the order of equal distances. So pivots and swaps are BSD's.
class PartialSort {
 public:
  /// Matches from `end` on need not be sorted.
  PartialSort(bool descending, Match end) : descending_(descending), end_(end) {}

  /// `rounds`: the most nested partitions. Without this limit, a client could choose distances that make the sort quadratic.
  void sort(Match first, std::ptrdiff_t size, int rounds) const {
    if (size < kFew) return sort_few(first, size);
    if (rounds == 0) {
      return std::stable_sort(first, first + size, [this](const GeoMatch& a, const GeoMatch& b) { return order(a, b) < 0; });
    }
    std::iter_swap(first, pivot(first, size));
    // Matches that equal the pivot collect at both ends: [first, equal), (rest, last]. Between them are the smaller, then the
    // larger ones.
    Match equal = first + 1, up = first + 1, down = first + (size - 1), rest = down;
    while (true) {
      for (; up <= down && order(*up, *first) <= 0; ++up) {
        if (order(*up, *first) == 0) std::iter_swap(equal++, up);
      }
      for (; up <= down && order(*down, *first) >= 0; --down) {
        if (order(*down, *first) == 0) std::iter_swap(down, rest--);
      }
      if (up > down) break;
      std::iter_swap(up++, down--);
    }
    const Match last = first + size;
    const std::ptrdiff_t smaller = up - equal, larger = rest - down;
    const std::ptrdiff_t from_front = std::min(equal - first, smaller), from_back = std::min(larger, last - rest - 1);
    std::swap_ranges(first, first + from_front, up - from_front);
    std::swap_ranges(up, up + from_back, last - from_back);
    if (smaller > 1 && first < end_) sort(first, smaller, rounds - 1);
    if (larger > 1 && last - larger < end_) sort(last - larger, larger, rounds - 1);
  }

 private:
  static constexpr std::ptrdiff_t kFew = 7, kMany = 40;

  /// Returns a negative number if `a` comes first, 0 if they are equally far.
  [[nodiscard]] int order(const GeoMatch& a, const GeoMatch& b) const {
    const int ascending = a.distance > b.distance ? 1 : a.distance == b.distance ? 0 : -1;
    return descending_ ? -ascending : ascending;
  }
  void sort_few(Match first, std::ptrdiff_t size) const {
    for (std::ptrdiff_t i = 1; i < size; ++i) {
      for (std::ptrdiff_t k = i; k > 0 && order(first[k - 1], first[k]) > 0; --k) std::iter_swap(first + k, first + k - 1);
    }
  }
  [[nodiscard]] Match median(Match a, Match b, Match c) const {
    if (order(*a, *b) < 0) return order(*b, *c) < 0 ? b : order(*a, *c) < 0 ? c : a;
    return order(*b, *c) > 0 ? b : order(*a, *c) < 0 ? a : c;
  }
  [[nodiscard]] Match pivot(Match first, std::ptrdiff_t size) const {
    Match low = first, middle = first + size / 2, high = first + (size - 1);
    if (size == kFew) return middle;
    if (size > kMany) {
      const std::ptrdiff_t step = size / 8;
      low = median(low, low + step, low + 2 * step);
      middle = median(middle - step, middle, middle + step);
      high = median(high - 2 * step, high - step, high);
    }
    return median(low, middle, high);
  }

  bool descending_;
  Match end_;
};

}  // namespace

void sort_matches(std::vector<GeoMatch>* matches, std::size_t count, bool descending) {
  if (count >= matches->size()) {
    return std::stable_sort(matches->begin(), matches->end(), [descending](const GeoMatch& a, const GeoMatch& b) {
      return descending ? a.distance > b.distance : a.distance < b.distance;
    });
  }
  const int rounds = 4 * static_cast<int>(std::bit_width(matches->size()));
  PartialSort(descending, matches->begin() + static_cast<std::ptrdiff_t>(count))
      .sort(matches->begin(), static_cast<std::ptrdiff_t>(matches->size()), rounds);
}

}  // namespace ebbtide
