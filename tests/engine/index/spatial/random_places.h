// Random places, with many at the edges of the earth's coordinates, at few meridians, and near each other.
#pragma once

#include <algorithm>

#include <engine/spatial.h>
#include "base/random.h"

namespace ebbtide {

inline Place random_place(Random& random) {
  const auto degrees = [&](double most) {
    switch (random.uniform(8)) {
      case 0:
        return most;
      case 1:
        return -most;
      case 2:
        return 0.0;
      case 3:
        return most - static_cast<double>(random.uniform(1000)) * 1e-6;
      default:
        return (random.fraction() * 2 - 1) * most;
    }
  };
  const double lon = degrees(180);
  return *make_place(lon, degrees(90));
}

/// Returns a place a few centimeters up to some thousand kilometers away.
inline Place nearby(Random& random, const Place& place) {
  constexpr double kDegrees[] = {1e-6, 1e-4, 0.01, 1, 30};
  const double most = kDegrees[random.uniform(5)];
  double lon = place.lon + (random.fraction() * 2 - 1) * most;
  if (lon > 180) lon -= 360;
  if (lon < -180) lon += 360;
  return *make_place(lon, std::clamp(place.lat + (random.fraction() * 2 - 1) * most, -90.0, 90.0));
}

}  // namespace ebbtide
