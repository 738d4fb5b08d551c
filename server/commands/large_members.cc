#include "commands/large_members.h"

#include <cmath>
#include <limits>
#include <string>

#include "commands/large_access.h"
#include "commands/large_part.h"

namespace ebbtide {
namespace {

constexpr double kHighest = std::numeric_limits<double>::infinity();

/// A name that sorts after the names of all members.
const std::string kBehindAll(sizeof(double) + 1, '\xff');

/// Returns a name that sorts after all members with a lower score, and before all other members.
std::string name_at(double score) { return ordered_score(score); }
/// Returns a name that sorts after all members up to this score, and before all other members.
std::string name_behind(double score) { return score == kHighest ? kBehindAll : ordered_score(std::nextafter(score, kHighest)); }

ElementRange range_of(const ScoreRange& range, const MemberLimit& limit = {}) {
  return {.which = ElementClass::kScore,
          .first = range.min.excluded ? name_behind(range.min.score) : name_at(range.min.score),
          .end = range.max.excluded ? name_at(range.max.score) : name_behind(range.max.score),
          .from_end = limit.from_end,
          .skip = limit.skip,
          .limit = limit.limit};
}

/// For a lower bound: returns the name of the first member of this score that the bound allows. With `behind`, for an upper
/// bound: returns the name after the last one.
std::string name_of(const LexBound& bound, double score, bool behind) {
  switch (bound.kind) {
    case LexBound::Kind::kLowest:
      return name_at(score);
    case LexBound::Kind::kHighest:
      return name_behind(score);
    case LexBound::Kind::kMember:
      break;
  }
  std::string name = name_at(score) + std::string(bound.member);
  if (bound.excluded != behind) name.push_back('\0');  // the smallest name above the bound
  return name;
}

ElementRange range_of(const LexRange& range, double score, const MemberLimit& limit = {}) {
  return {.which = ElementClass::kScore,
          .first = name_of(range.min, score, false),
          .end = name_of(range.max, score, true),
          .from_end = limit.from_end,
          .skip = limit.skip,
          .limit = limit.limit};
}

Result<LargePart> part_of(Ctx& ctx, const Found& found) {
  TRY_ASSIGN(header, header_of(found));
  return LargePart(ctx, found, header);
}

Status load(Ctx& ctx, const ElementRange& range, Found* found) {
  TRY_ASSIGN(part, part_of(ctx, *found));
  TRY(part.walk(range));
  part.give(found);
  return Status::ok();
}

Status visit_range(Ctx& ctx, const ElementRange& range, const Found& found,
                   const std::function<Status(const ScoredMember&)>& visit) {
  TRY_ASSIGN(part, part_of(ctx, found));
  return part.visit(range, [&](Bytes name, Bytes /*value*/, Millis /*expiry*/) {
    TRY(ctx.work(name.size()));
    const auto member = scored_member_of(name);
    return member ? visit(*member) : Status::corruption("a member of a sorted set has a damaged name");
  });
}

/// Returns the score if all members have the same one; otherwise nullopt.
Result<std::optional<double>> common_score(Ctx& ctx, const Found& found) {
  std::optional<double> lowest, highest;
  for (const bool from_end : {false, true}) {
    Found edge = found;
    TRY(load(ctx, {.which = ElementClass::kScore, .from_end = from_end, .limit = 1}, &edge));
    TRY_ASSIGN(members, decode_sorted_set(edge.value));
    if (members.empty()) return Status::corruption("a sorted set lacks members that its header counts");
    (from_end ? highest : lowest) = members.front().score;
  }
  return lowest == highest ? lowest : std::nullopt;
}

}  // namespace

Status load_members(Ctx& ctx, const Places& places, Found* found) {
  TRY_ASSIGN(header, header_of(*found));
  ElementRange range{.which = ElementClass::kScore, .skip = places.begin, .limit = places.size()};
  range.from_end = header.count - places.end < places.begin;
  if (range.from_end) range.skip = header.count - places.end;
  if (places.empty()) range.skip = 0;
  TRY(load(ctx, range, found));
  TRY_ASSIGN(reader, CompactReader::open(found->value, CollectionType::kSortedSet));
  if (reader.count() == places.size()) return Status::ok();
  return Status::corruption("the element count in the header of a collection is wrong");
}

Status load_members(Ctx& ctx, const ScoreRange& range, const MemberLimit& limit, Found* found) {
  return load(ctx, range_of(range, limit), found);
}

Status load_members(Ctx& ctx, std::span<const ScoreRange> ranges, Found* found) {
  TRY_ASSIGN(part, part_of(ctx, *found));
  for (const ScoreRange& range : ranges) TRY(part.walk(range_of(range)));
  part.give(found);
  return Status::ok();
}

Status load_members(Ctx& ctx, const LexRange& range, const MemberLimit& limit, Found* found, bool* all) {
  TRY_ASSIGN(score, common_score(ctx, *found));
  *all = !score;
  return score ? load(ctx, range_of(range, *score, limit), found) : load_elements(ctx, CollectionType::kSortedSet, {}, found);
}

Status visit_members(Ctx& ctx, const Places& places, const Found& found,
                     const std::function<Status(const ScoredMember&)>& visit) {
  if (ctx.off_loop == nullptr && places.size() > kMostWalked) return leave_loop(ctx);
  std::uint64_t visited = 0;
  TRY(visit_range(ctx, {.which = ElementClass::kScore, .skip = places.begin, .limit = places.size()}, found,
                  [&](const ScoredMember& member) {
                    ++visited;
                    return visit(member);
                  }));
  if (visited == places.size()) return Status::ok();
  return Status::corruption("the header of a collection counts another number of elements");
}

Status visit_members(Ctx& ctx, const ScoreRange& range, const MemberLimit& limit, const Found& found,
                     const std::function<Status(const ScoredMember&)>& visit) {
  return visit_range(ctx, range_of(range, limit), found, visit);
}

Result<std::uint64_t> count_members(Ctx& ctx, const ScoreRange& range, const Found& found) {
  TRY_ASSIGN(part, part_of(ctx, found));
  return part.count_in(range_of(range));
}

Result<std::optional<std::uint64_t>> count_members(Ctx& ctx, const LexRange& range, const Found& found) {
  TRY_ASSIGN(score, common_score(ctx, found));
  if (!score) return std::optional<std::uint64_t>();
  TRY_ASSIGN(part, part_of(ctx, found));
  TRY_ASSIGN(count, part.count_in(range_of(range, *score)));
  return std::optional(count);
}

Result<std::optional<RankedScore>> rank_member(Ctx& ctx, Bytes member, Found* found) {
  TRY(load_element(ctx, CollectionType::kSortedSet, member, found));
  TRY_ASSIGN(place, find_member(found->value, member));
  if (!place) return place;
  TRY_ASSIGN(part, part_of(ctx, *found));
  TRY_ASSIGN(rank, part.place_of(scored_name({place->score, member})));
  return std::optional(RankedScore{static_cast<std::size_t>(rank), place->score});
}

}  // namespace ebbtide
