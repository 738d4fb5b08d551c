#include <engine/index.h>
#include <engine/spatial.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "index/spatial/curves.h"

namespace ebbtide {
namespace {

constexpr double kRadiansPerDegree = std::numbers::pi / 180.0;
constexpr std::size_t kNumberBytes = 8;

/// A lower bound is made smaller by this slack, since rounding may make a calculated distance too large. The error is about 1e-16
/// of the radius for near places, and 1e-8 of it for places that are nearly opposite each other. The slack is far larger than
/// that, and costs a search nothing.
constexpr double kRelativeSlack = 1e-7, kSlackMeters = 0.001;

double radians(double degrees) { return degrees * kRadiansPerDegree; }

/// Returns the ordered number whose upper 32 bits are `upper`. The lower bits are ones if `rounded_up` is true, otherwise zeros.
double number_from(std::uint32_t upper, bool rounded_up) {
  return number_of(code_bytes(std::uint64_t{upper} << 32 | (rounded_up ? 0xffffffffu : 0)));
}

/// Returns the nearest number to `number` in [low, high]. For NaN, returns `high` if `rounded_up` is true, otherwise `low`.
double clamped(double number, double low, double high, bool rounded_up) {
  if (std::isnan(number)) return rounded_up ? high : low;
  return std::clamp(number, low, high);
}

/// Returns the latitude within [south, north] at which a meridian is nearest to `place`. `degrees`: longitude of the meridian
/// minus that of the place.
///
/// On the meridian the cosine of the distance is A cos(lat - peak). It falls as `lat` moves away from `peak`, up to half a
/// circle. So its greatest value in a range is at the peak, or at an end of the range.
double nearest_latitude(const Place& place, double degrees, double south, double north) {
  const double from = radians(place.lat);
  const double peak = std::atan2(std::sin(from), std::cos(from) * std::cos(radians(degrees))) / kRadiansPerDegree;
  if (south <= peak && peak <= north) return peak;
  const auto away = [&](double lat) {
    const double difference = std::fabs(lat - peak);
    return std::min(difference, 360 - difference);
  };
  return away(south) < away(north) ? south : north;
}

}  // namespace

std::optional<Place> make_place(double lon, double lat) {
  // NaN fails these comparisons, too.
  if (!(lon >= -180 && lon <= 180 && lat >= -90 && lat <= 90)) return std::nullopt;
  return Place{lon == 180 ? -180 : lon == 0 ? 0 : lon, lat == 0 ? 0 : lat};
}

double place_distance(const Place& a, const Place& b) {
  const double from = radians(a.lat), to = radians(b.lat);
  const double v = std::sin((radians(b.lon) - radians(a.lon)) / 2);
  if (v == 0) return kEarthRadiusMeters * std::fabs(to - from);
  const double u = std::sin((to - from) / 2);
  const double square = u * u + std::cos(from) * std::cos(to) * v * v;
  return 2.0 * kEarthRadiusMeters * std::asin(std::min(std::sqrt(square), 1.0));  // rounding may give more than 1
}

std::uint64_t place_code(PlaceOrder order, const Place& place) {
  const std::uint32_t column = column_of(place.lon), row = row_of(place.lat);
  return kFirstCode | (order == PlaceOrder::kHilbert ? hilbert_code(column, row) : zorder_code(column, row));
}

std::string place_key(PlaceOrder order, const Place& place, Bytes record) {
  std::string key;
  if (order != PlaceOrder::kSimple) key = code_bytes(place_code(order, place));
  key += ordered_number(place.lon);
  key += ordered_number(place.lat);
  key += record;
  return key;
}

bool split_place_key(PlaceOrder order, Bytes key, Place* place, Bytes* record) {
  const std::size_t at = points_offset(order);
  if (key.size() < at + kPointBytes) return false;
  place->lon = number_of(key.substr(at, kNumberBytes));
  place->lat = number_of(key.substr(at + kNumberBytes, kNumberBytes));
  *record = key.substr(at + kPointBytes);
  return true;
}

PlaceBox box_of(const PointBounds& bounds) {
  return {clamped(number_from(bounds.min_x, false), -180, 180, false), clamped(number_from(bounds.min_y, false), -90, 90, false),
          clamped(number_from(bounds.max_x, true), -180, 180, true), clamped(number_from(bounds.max_y, true), -90, 90, true)};
}

double least_distance(const Place& place, const PlaceBox& box) {
  const double lon = place.lon;
  double least = 0;
  if (box.west <= lon && lon <= box.east) {
    // The nearest place of the box is on the meridian of `place`.
    least = place_distance(place, {lon, std::clamp(place.lat, box.south, box.north)});
  } else {
    // On each circle of latitude, the nearest place of the box is on the western or the eastern edge of the box.
    const auto to_edge = [&](double edge) {
      return place_distance(place, {edge, nearest_latitude(place, edge - lon, box.south, box.north)});
    };
    least = std::min(to_edge(box.west), to_edge(box.east));
  }
  return std::max(0.0, least - least * kRelativeSlack - kSlackMeters);
}

}  // namespace ebbtide
