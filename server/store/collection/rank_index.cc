#include "store/collection/rank_index.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ebbtide {
namespace {

/// Memory of a segment, without its name.
constexpr std::size_t kSegmentBytes = 64;

}  // namespace

RankIndex::RankIndex(std::uint64_t count) : count_(count), memory_(sizeof(RankIndex) + kSegmentBytes) {
  groups_.push_back({.segments = {{"", count}}, .count = count});
}

RankIndex::Place RankIndex::place_of(Bytes name) const {
  const auto group = std::prev(std::upper_bound(groups_.begin() + 1, groups_.end(), name, [](Bytes wanted, const Group& each) {
    return wanted < Bytes(each.segments.front().first);
  }));
  const auto& segments = group->segments;
  const auto segment = std::prev(std::upper_bound(segments.begin() + 1, segments.end(), name,
                                                  [](Bytes wanted, const Segment& each) { return wanted < Bytes(each.first); }));
  return {static_cast<std::size_t>(group - groups_.begin()), static_cast<std::size_t>(segment - segments.begin())};
}

RankIndex::Boundary RankIndex::boundary_at(const Place& place) const {
  Boundary boundary;
  for (std::size_t g = 0; g < place.group; ++g) boundary.before += groups_[g].count;
  const auto& segments = groups_[place.group].segments;
  for (std::size_t s = 0; s < place.segment; ++s) boundary.before += segments[s].count;
  boundary.name = segments[place.segment].first;
  boundary.elements = segments[place.segment].count;
  return boundary;
}

RankIndex::Boundary RankIndex::at_name(Bytes name) const { return boundary_at(place_of(name)); }

RankIndex::Boundary RankIndex::at_rank(std::uint64_t rank) const {
  Place place{0, 0};
  std::uint64_t before = 0;
  while (place.group + 1 < groups_.size() && before + groups_[place.group].count <= rank) before += groups_[place.group++].count;
  const auto& segments = groups_[place.group].segments;
  while (place.segment + 1 < segments.size() && before + segments[place.segment].count <= rank)
    before += segments[place.segment++].count;
  return {segments[place.segment].first, before, segments[place.segment].count};
}

void RankIndex::add(Bytes name) {
  const Place place = place_of(name);
  ++groups_[place.group].segments[place.segment].count;
  ++groups_[place.group].count;
  ++count_;
}

bool RankIndex::remove(Bytes name) {
  const Place place = place_of(name);
  Group& group = groups_[place.group];
  Segment& segment = group.segments[place.segment];
  if (segment.count == 0) return false;
  --segment.count;
  --group.count;
  --count_;
  // Removes empty segments: otherwise a queue would leave one for each hundred elements that passed through it.
  if (segment.count == 0 && !(place.group == 0 && place.segment == 0)) erase(place);
  return true;
}

void RankIndex::erase(const Place& place) {
  auto& segments = groups_[place.group].segments;
  memory_ -= kSegmentBytes + segments[place.segment].first.size();
  segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(place.segment));
  if (segments.empty()) groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(place.group));
}

const std::string* RankIndex::end_of(const Place& place) const {
  const auto& segments = groups_[place.group].segments;
  if (place.segment + 1 < segments.size()) return &segments[place.segment + 1].first;
  return place.group + 1 < groups_.size() ? &groups_[place.group + 1].segments.front().first : nullptr;
}

bool RankIndex::split(Bytes from, std::span<const Point> points, std::span<const Change> since) {
  const Place place = place_of(from);
  Group& group = groups_[place.group];
  const Segment& whole = group.segments[place.segment];
  const std::string* const end = end_of(place);
  while (!points.empty() && end != nullptr && points.back().name >= *end) points = points.first(points.size() - 1);
  if (Bytes(whole.first) != from || (!points.empty() && Bytes(points.front().name) <= from)) return false;
  if (points.empty()) return true;

  // Signed counts: first as the walk saw them, then corrected by the changes since.
  std::vector<std::int64_t> counts;
  for (const Point& point : points) counts.push_back(static_cast<std::int64_t>(point.elements));
  auto last = static_cast<std::int64_t>(whole.count);
  for (const std::int64_t each : counts) last -= each;
  counts.push_back(last);
  for (const Change& change : since) {
    if (Bytes(change.name) < from || (end != nullptr && change.name >= *end)) continue;
    const auto piece = std::upper_bound(points.begin(), points.end(), change.name,
                                        [](const std::string& name, const Point& each) { return name < each.name; });
    const std::int64_t step = change.added ? 1 : -1;
    counts[static_cast<std::size_t>(piece - points.begin())] += step;
    counts.back() -= step;  // `whole` already includes the change
  }
  if (std::any_of(counts.begin(), counts.end(), [](std::int64_t each) { return each < 0; })) return false;

  std::vector<Segment> pieces{{whole.first, static_cast<std::uint64_t>(counts.front())}};
  for (std::size_t i = 0; i < points.size(); ++i) {
    memory_ += kSegmentBytes + points[i].name.size();
    pieces.push_back({points[i].name, static_cast<std::uint64_t>(counts[i + 1])});
  }
  const auto at = group.segments.erase(group.segments.begin() + static_cast<std::ptrdiff_t>(place.segment));
  group.segments.insert(at, std::make_move_iterator(pieces.begin()), std::make_move_iterator(pieces.end()));
  divide(place.group);
  return true;
}

void RankIndex::divide(std::size_t group) {
  std::vector<Segment> all = std::move(groups_[group].segments);
  if (all.size() <= kMostGroupSegments) {
    groups_[group].segments = std::move(all);
    return;
  }
  std::vector<Group> parts;
  for (std::size_t begin = 0; begin < all.size(); begin += kGroupSegments) {
    Group& part = parts.emplace_back();
    const std::size_t end = std::min(begin + kGroupSegments, all.size());
    for (std::size_t s = begin; s < end; ++s) {
      part.count += all[s].count;
      part.segments.push_back(std::move(all[s]));
    }
  }
  const auto at = groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(group));
  groups_.insert(at, std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
}

}  // namespace ebbtide
