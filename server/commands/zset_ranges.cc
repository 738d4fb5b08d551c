// Ranges of sorted sets by rank, score or member: ZRANGE and its older forms, counts, removals, ZRANGESTORE. Errors and their
// order are Redis's. Of a large sorted set only the range is read (commands/large_members.h).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "commands/collection_access.h"
#include "commands/families.h"
#include "commands/large_members.h"
#include "commands/zset_members.h"
#include "commands/zsets_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"

namespace ebbtide {
namespace {

enum class RangeBy : std::uint8_t { kAny, kRank, kScore, kLex };
enum class Direction : std::uint8_t { kAny, kForward, kReverse };

struct RangeRequest {
  RangeBy by = RangeBy::kAny;
  Direction direction = Direction::kAny;
  bool with_scores = false;
  std::int64_t offset = 0, limit = -1;
  std::int64_t start = 0, stop = 0;  ///< the range of ranks
  ScoreRange scores;
  LexRange members;

  [[nodiscard]] bool reverse() const { return direction == Direction::kReverse; }
};

Result<ScoreRange> score_range(Bytes min, Bytes max) {
  const auto low = parse_score_bound(min), high = parse_score_bound(max);
  if (!low || !high) return reply_error("ERR min or max is not a float");
  return ScoreRange{*low, *high};
}

Result<LexRange> lex_range(Bytes min, Bytes max) {
  const auto low = parse_lex_bound(min), high = parse_lex_bound(max);
  if (!low || !high) return reply_error("ERR min or max not valid string range item");
  return LexRange{*low, *high};
}

/// Parses the options after the range, whose first argument is `min`. `stores`: for ZRANGESTORE, which has no WITHSCORES.
Status parse_range_options(const Ctx& ctx, std::size_t min, bool stores, RangeRequest* request) {
  for (ArgCursor cursor(ctx.args, min + 2); !cursor.done();) {
    if (!stores && cursor.take_word("WITHSCORES")) {
      request->with_scores = true;
    } else if (cursor.left() >= 3 && cursor.take_word("LIMIT")) {
      TRY_ASSIGN(offset, integer_argument(cursor.take()));
      TRY_ASSIGN(limit, integer_argument(cursor.take()));
      request->offset = offset;
      request->limit = limit;
    } else if (request->direction == Direction::kAny && cursor.take_word("REV")) {
      request->direction = Direction::kReverse;
    } else if (request->by == RangeBy::kAny && cursor.take_word("BYLEX")) {
      request->by = RangeBy::kLex;
    } else if (request->by == RangeBy::kAny && cursor.take_word("BYSCORE")) {
      request->by = RangeBy::kScore;
    } else {
      return syntax_error();
    }
  }
  if (request->by == RangeBy::kAny) request->by = RangeBy::kRank;
  if (request->limit != -1 && request->by == RangeBy::kRank) {
    return reply_error("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
  }
  if (request->with_scores && request->by == RangeBy::kLex) {
    return reply_error("ERR syntax error, WITHSCORES not supported in combination with BYLEX");
  }
  return Status::ok();
}

Status parse_range(const Ctx& ctx, std::size_t min, bool stores, RangeRequest* request) {
  TRY(parse_range_options(ctx, min, stores, request));
  if (request->by == RangeBy::kRank) {
    TRY_ASSIGN(start, integer_argument(ctx.arg(min)));
    TRY_ASSIGN(stop, integer_argument(ctx.arg(min + 1)));
    request->start = start;
    request->stop = stop;
    return Status::ok();
  }
  // A reversed range has its maximum first, then its minimum.
  const Bytes low = ctx.arg(request->reverse() ? min + 1 : min), high = ctx.arg(request->reverse() ? min : min + 1);
  if (request->by == RangeBy::kScore) {
    TRY_ASSIGN(scores, score_range(low, high));
    request->scores = scores;
  } else {
    TRY_ASSIGN(members, lex_range(low, high));
    request->members = members;
  }
  return Status::ok();
}

/// Returns the indexes of a range of ranks in a sorted set of that size.
Places ranks_of(const RangeRequest& request, std::size_t size) {
  const Places places = places_between(request.start, request.stop, size);
  return request.reverse() && !places.empty() ? Places{size - places.end, size - places.begin} : places;
}

/// Returns the indexes of the requested range. If the request is reversed, the caller must read them from the end.
Places places_of(const RangeRequest& request, const SortedSet& members) {
  const std::size_t size = members.size();
  if (request.by == RangeBy::kRank) return ranks_of(request, size);
  if (request.offset < 0 || std::cmp_greater_equal(request.offset, size)) return {};
  const auto skipped = static_cast<std::size_t>(request.offset);
  Places places;
  if (request.by == RangeBy::kLex) {
    places = places_in(members, request.members, skipped, request.reverse());
  } else {
    places = places_in(members, request.scores);
    const std::size_t passed = std::min(skipped, places.size());
    request.reverse() ? places.end -= passed : places.begin += passed;
  }
  if (request.limit < 0 || std::cmp_greater_equal(request.limit, places.size())) return places;
  const auto limit = static_cast<std::size_t>(request.limit);
  return request.reverse() ? Places{places.end - limit, places.end} : Places{places.begin, places.begin + limit};
}

/// Loads the requested range of a located large sorted set. If all members were loaded instead, sets `*all`.
Status load_range(Ctx& ctx, const RangeRequest& request, Found* found, bool* all) {
  *all = false;
  if (request.by == RangeBy::kRank) {
    TRY_ASSIGN(size, element_count(ctx, *found, CollectionType::kSortedSet));
    return load_members(ctx, ranks_of(request, static_cast<std::size_t>(size)), found);
  }
  if (request.offset < 0) return load_members(ctx, Places{}, found);
  MemberLimit limit{.from_end = request.reverse(), .skip = static_cast<std::uint64_t>(request.offset)};
  if (request.limit >= 0) limit.limit = static_cast<std::uint64_t>(request.limit);
  if (request.by == RangeBy::kScore) return load_members(ctx, request.scores, limit, found);
  return load_members(ctx, request.members, limit, found, all);
}

/// Reads the requested range of a located sorted set. The members point into `found`.
Result<MembersRead> read_range(Ctx& ctx, const RangeRequest& request, std::optional<Found>* found) {
  MembersRead read;
  if (!*found) return read;
  bool all = true;
  if (is_large(*found)) TRY(load_range(ctx, request, &**found, &all));
  TRY_ASSIGN(decoded, decode_sorted_set((*found)->value));
  read.members = std::move(decoded);
  read.places = all ? places_of(request, read.members) : Places{0, read.members.size()};
  return read;
}

/// Writes a member of a range.
Status reply_member(Ctx& ctx, const RangeRequest& request, const ScoredMember& member) {
  reply_pair_head(ctx.reply, request.with_scores);
  ctx.reply.bulk(member.member);
  if (request.with_scores) ctx.reply.double_(member.score);
  return ctx.reserve_reply();
}

/// Replies with a range of ranks of a large sorted set, which was located, without loading it. Sets `*done` to false, and replies
/// nothing, if the range is not read in the order of the reply.
Status reply_ranks(Ctx& ctx, const RangeRequest& request, const Found& found, bool* done) {
  TRY_ASSIGN(size, element_count(ctx, found, CollectionType::kSortedSet));
  const Places places = ranks_of(request, static_cast<std::size_t>(size));
  *done = places.begin <= size - places.end;  // load_members() reads other ranges from the nearer end
  if (!*done) return Status::ok();
  reply_pairs_head(ctx.reply, places.size(), request.with_scores);
  return visit_members(ctx, places, found, [&](const ScoredMember& each) { return reply_member(ctx, request, each); });
}

/// Like reply_ranks(), for a range of scores. The members of a short range are loaded: an array whose length is not known before
/// takes a buffer of its own.
Status reply_scores(Ctx& ctx, const RangeRequest& request, const Found& found, bool* done) {
  constexpr std::uint64_t kShort = 64;
  *done = request.offset >= 0 && (request.limit < 0 || std::cmp_greater(request.limit, kShort));
  if (!*done) return Status::ok();
  MemberLimit limit{.skip = static_cast<std::uint64_t>(request.offset), .limit = kShort + 1};
  Found first = found;
  TRY(load_members(ctx, request.scores, limit, &first));
  TRY_ASSIGN(members, decode_sorted_set(first.value));
  if (members.size() <= kShort) return reply_members(ctx, members, {0, members.size()}, false, request.with_scores);
  limit.limit = request.limit < 0 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(request.limit);
  std::size_t count = 0;
  const std::uint64_t hole = ctx.reply.begin_array();
  TRY(visit_members(ctx, request.scores, limit, found, [&](const ScoredMember& each) {
    ++count;
    return reply_member(ctx, request, each);
  }));
  ctx.reply.end_array(hole, request.with_scores && ctx.reply.protocol() == 2 ? 2 * count : count);
  return Status::ok();
}

Status range_generic(Ctx& ctx, RangeBy by, Direction direction) {
  RangeRequest request;
  request.by = by;
  request.direction = direction;
  TRY(parse_range(ctx, 2, false, &request));
  std::optional<Found> found;
  TRY(locate_collection(ctx, ctx.key(), CollectionType::kSortedSet, &found));
  if (is_large(found) && !request.reverse() && request.by != RangeBy::kLex) {
    bool done = false;
    TRY(request.by == RangeBy::kRank ? reply_ranks(ctx, request, *found, &done) : reply_scores(ctx, request, *found, &done));
    if (done) return Status::ok();
  }
  TRY_ASSIGN(read, read_range(ctx, request, &found));
  return reply_members(ctx, read.members, read.places, request.reverse(), request.with_scores);
}

Status zrange(Ctx& ctx) { return range_generic(ctx, RangeBy::kAny, Direction::kAny); }
Status zrevrange(Ctx& ctx) { return range_generic(ctx, RangeBy::kRank, Direction::kReverse); }
Status zrangebyscore(Ctx& ctx) { return range_generic(ctx, RangeBy::kScore, Direction::kForward); }
Status zrevrangebyscore(Ctx& ctx) { return range_generic(ctx, RangeBy::kScore, Direction::kReverse); }
Status zrangebylex(Ctx& ctx) { return range_generic(ctx, RangeBy::kLex, Direction::kForward); }
Status zrevrangebylex(Ctx& ctx) { return range_generic(ctx, RangeBy::kLex, Direction::kReverse); }

Status zrangestore(Ctx& ctx) {
  RangeRequest request;
  TRY(parse_range(ctx, 3, true, &request));
  std::optional<Found> found;
  TRY(locate_collection_for_update(ctx, ctx.key(1), CollectionType::kSortedSet, &found));
  TRY_ASSIGN(read, read_range(ctx, request, &found));
  const auto begin = read.members.begin();
  return store_result(
      ctx, ctx.key(0),
      SortedSet(begin + static_cast<std::ptrdiff_t>(read.places.begin), begin + static_cast<std::ptrdiff_t>(read.places.end)));
}

/// Returns the number of members in a range of a located large sorted set.
Result<std::uint64_t> count_large(Ctx& ctx, const ScoreRange& range, Found* found) { return count_members(ctx, range, *found); }
Result<std::uint64_t> count_large(Ctx& ctx, const LexRange& range, Found* found) {
  TRY_ASSIGN(counted, count_members(ctx, range, *found));
  if (counted) return *counted;
  TRY(read_collection(ctx, CollectionType::kSortedSet, found));
  TRY_ASSIGN(members, decode_sorted_set(found->value));
  return std::uint64_t{places_in(members, range).size()};
}

template <typename Range>
Status count_generic(Ctx& ctx, const Range& range) {
  std::optional<Found> found;
  TRY(locate_collection(ctx, ctx.key(), CollectionType::kSortedSet, &found));
  std::uint64_t count = 0;
  if (is_large(found)) {
    TRY_ASSIGN(counted, count_large(ctx, range, &*found));
    count = counted;
  } else if (found) {
    TRY_ASSIGN(members, decode_sorted_set(found->value));
    count = places_in(members, range).size();
  }
  ctx.reply.integer(static_cast<std::int64_t>(count));
  return Status::ok();
}

Status zcount(Ctx& ctx) {
  TRY_ASSIGN(range, score_range(ctx.arg(2), ctx.arg(3)));
  return count_generic(ctx, range);
}

Status zlexcount(Ctx& ctx) {
  TRY_ASSIGN(range, lex_range(ctx.arg(2), ctx.arg(3)));
  return count_generic(ctx, range);
}

Status remove_range(Ctx& ctx, const RangeRequest& request) {
  std::optional<Found> old;
  TRY(locate_collection_for_update(ctx, ctx.key(), CollectionType::kSortedSet, &old));
  TRY_ASSIGN(read, read_range(ctx, request, &old));
  TRY(remove_places(ctx, ctx.key(), old, std::move(read.members), read.places));
  ctx.reply.integer(static_cast<std::int64_t>(read.places.size()));
  return Status::ok();
}

Status zremrangebyrank(Ctx& ctx) {
  TRY_ASSIGN(start, integer_argument(ctx.arg(2)));
  TRY_ASSIGN(stop, integer_argument(ctx.arg(3)));
  return remove_range(ctx, {.by = RangeBy::kRank, .start = start, .stop = stop});
}

Status zremrangebyscore(Ctx& ctx) {
  TRY_ASSIGN(range, score_range(ctx.arg(2), ctx.arg(3)));
  return remove_range(ctx, {.by = RangeBy::kScore, .scores = range});
}

Status zremrangebylex(Ctx& ctx) {
  TRY_ASSIGN(range, lex_range(ctx.arg(2), ctx.arg(3)));
  return remove_range(ctx, {.by = RangeBy::kLex, .members = range});
}

constexpr KeySpec kZrangestoreKeys[] = {{.first = 1, .access = KeySpec::kOw | KeySpec::kUpdate},
                                        {.first = 2, .access = KeySpec::kRo | KeySpec::kAccess}};

constexpr CommandSpec kRanges[] = {
    {.name = "zcount",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = zcount,
     .since = "2.0.0",
     .complexity = "O(N) where N is the number of members in the range. A sorted set of up to 128 members is one entry, which is "
                   "read whole.",
     .summary = "Returns the count of members in a sorted set that have scores within a range.",
     .group = Group::kSortedSet,
     .arguments = kZcountArguments},
    {.name = "zlexcount",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = zlexcount,
     .since = "2.8.9",
     .complexity = "O(N) where N is the number of members in the range. A sorted set of up to 128 members is one entry, which is "
                   "read whole.",
     .summary = "Returns the number of members in a sorted set within a lexicographical range.",
     .group = Group::kSortedSet,
     .arguments = kZlexcountArguments},
    {.name = "zrange",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = zrange,
     .since = "1.2.0",
     .complexity = "O(N) where N is the number of members that are skipped and returned. A sorted set of up to 128 members is "
                   "one entry, which is read whole.",
     .summary = "Returns members in a sorted set within a range of indexes.",
     .group = Group::kSortedSet,
     .arguments = kZrangeArguments},
    {.name = "zrangebylex",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = zrangebylex,
     .since = "2.8.9",
     .complexity = "O(N) where N is the number of members that are skipped and returned. A sorted set of up to 128 members is "
                   "one entry, which is read whole.",
     .summary = "Returns members in a sorted set within a lexicographical range.",
     .group = Group::kSortedSet,
     .arguments = kZrangebylexArguments},
    {.name = "zrangebyscore",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = zrangebyscore,
     .since = "1.0.5",
     .complexity = "O(N) where N is the number of members that are skipped and returned. A sorted set of up to 128 members is "
                   "one entry, which is read whole.",
     .summary = "Returns members in a sorted set within a range of scores.",
     .group = Group::kSortedSet,
     .arguments = kZrangebyscoreArguments},
    {.name = "zrangestore",
     .arity = at_least(5),
     .keys = {.first = 1, .last = 2, .access = KeySpec::kRw | KeySpec::kAccess},
     .flags = kWrite | kDenyOom,
     .run = zrangestore,
     .since = "6.2.0",
     .complexity = "O(N) where N is the number of members that are skipped and stored. A sorted set of up to 128 members is one "
                   "entry, which is read whole.",
     .summary = "Stores a range of members from sorted set in a key.",
     .group = Group::kSortedSet,
     .arguments = kZrangestoreArguments,
     .key_specs = kZrangestoreKeys,
     .event = {.name = "zrangestore", .letter = 'z'}},
    {.name = "zremrangebylex",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kDelete},
     .flags = kWrite,
     .run = zremrangebylex,
     .since = "2.8.9",
     .complexity =
         "O(N) where N is the number of removed members. A sorted set of up to 128 members is one entry, which is read whole.",
     .summary =
         "Removes members in a sorted set within a lexicographical range. Deletes the sorted set if all members were removed.",
     .group = Group::kSortedSet,
     .arguments = kZremrangebylexArguments,
     .event = {.name = "zremrangebylex", .letter = 'z', .before_delete = true}},
    {.name = "zremrangebyrank",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kDelete},
     .flags = kWrite,
     .run = zremrangebyrank,
     .since = "2.0.0",
     .complexity = "O(N) where N is the number of members that are skipped and removed. A sorted set of up to 128 members is one "
                   "entry, which is read whole.",
     .summary = "Removes members in a sorted set within a range of indexes. Deletes the sorted set if all members were removed.",
     .group = Group::kSortedSet,
     .arguments = kZremrangebyrankArguments,
     .event = {.name = "zremrangebyrank", .letter = 'z', .before_delete = true}},
    {.name = "zremrangebyscore",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kDelete},
     .flags = kWrite,
     .run = zremrangebyscore,
     .since = "1.2.0",
     .complexity =
         "O(N) where N is the number of removed members. A sorted set of up to 128 members is one entry, which is read whole.",
     .summary = "Removes members in a sorted set within a range of scores. Deletes the sorted set if all members were removed.",
     .group = Group::kSortedSet,
     .arguments = kZremrangebyscoreArguments,
     .event = {.name = "zremrangebyscore", .letter = 'z', .before_delete = true}},
    {.name = "zrevrange",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = zrevrange,
     .since = "1.2.0",
     .complexity = "O(N) where N is the number of members that are skipped and returned. A sorted set of up to 128 members is "
                   "one entry, which is read whole.",
     .summary = "Returns members in a sorted set within a range of indexes in reverse order.",
     .group = Group::kSortedSet,
     .arguments = kZrevrangeArguments},
    {.name = "zrevrangebylex",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = zrevrangebylex,
     .since = "2.8.9",
     .complexity = "O(N) where N is the number of members that are skipped and returned. A sorted set of up to 128 members is "
                   "one entry, which is read whole.",
     .summary = "Returns members in a sorted set within a lexicographical range in reverse order.",
     .group = Group::kSortedSet,
     .arguments = kZrevrangebylexArguments},
    {.name = "zrevrangebyscore",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = zrevrangebyscore,
     .since = "2.2.0",
     .complexity = "O(N) where N is the number of members that are skipped and returned. A sorted set of up to 128 members is "
                   "one entry, which is read whole.",
     .summary = "Returns members in a sorted set within a range of scores in reverse order.",
     .group = Group::kSortedSet,
     .arguments = kZrevrangebyscoreArguments},
};

}  // namespace

std::span<const CommandSpec> zset_range_commands() { return kRanges; }

}  // namespace ebbtide
