// The nearest places to a center, by circles that grow.
//
// The first circle is tiny. A circle without enough entries is followed by a larger one, whose size is estimated from how many
// entries it had. In a circle that has enough, each nearer entry makes the circle smaller, so that more and more tiles are
// skipped. Circles read the same tiles again, but then from memory; small circles meet few tiles, or none.
//
// The result is right for any distribution of entries over runs: each circle is a search of its own, which shows an entry only if
// the entry exists.
#include <engine/spatial.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/invariant.h"

namespace ebbtide {
namespace {

constexpr double kFirstMeters = 1;
/// More than half of the earth's circumference.
constexpr double kAllMeters = 2.1e7;
/// After an empty circle, the radius of the next one is eight times as large: 9 circles from the first to the whole earth.
constexpr double kMostGrowth = 8;
/// The factor by which the next circle's radius is larger than estimated. If entries are distributed evenly, such a circle has
/// more than twice as many entries as needed.
constexpr double kSpare = 1.5;

bool nearer(const NearPlace& a, const NearPlace& b) { return std::tie(a.meters, a.record) < std::tie(b.meters, b.record); }

double growth(std::size_t found, std::size_t wanted) {
  if (found == 0) return kMostGrowth;
  return std::min(kSpare * std::sqrt(static_cast<double>(wanted) / static_cast<double>(found)), kMostGrowth);
}

}  // namespace

Result<std::vector<NearPlace>> nearest_places(const Place& center, std::size_t count, const PlaceSearchOptions& options,
                                              const PlaceSearch::Open& open) {
  ASSERT_MSG(options.max_steps == 0, "the nearest entries are known only at the end of a search");
  std::vector<NearPlace> nearest;  // a heap, the farthest first
  if (count == 0) return nearest;
  for (double meters = kFirstMeters;; meters *= growth(nearest.size(), count)) {
    const bool all = meters >= kAllMeters;
    nearest.clear();
    PlaceSearch search(all ? PlaceShape::around(center) : *PlaceShape::circle(center, meters), options, open);
    for (search.next(); search.valid(); search.next()) {
      NearPlace found{place_distance(center, search.place()), search.place(), std::string(search.record())};
      if (nearest.size() == count) {
        if (!nearer(found, nearest.front())) continue;
        std::pop_heap(nearest.begin(), nearest.end(), nearer);
        nearest.pop_back();
      }
      nearest.push_back(std::move(found));
      std::push_heap(nearest.begin(), nearest.end(), nearer);
      if (nearest.size() == count) search.shrink(nearest.front().meters);
    }
    TRY(search.status());
    if (!all && nearest.size() < count) continue;
    std::sort_heap(nearest.begin(), nearest.end(), nearer);
    return nearest;
  }
}

}  // namespace ebbtide
