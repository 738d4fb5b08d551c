// Sorted sets: ZADD, ZRANGE and the other commands on members with scores. Errors and their order are Redis's.
//
// A small sorted set is one entry, which each write replaces as a whole (store/collections.h). In a large one, commands read and
// write only the members that they name (commands/large_access.h) or a range of them (commands/large_members.h). Changing a
// member's score does not count as a delete.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/collection_access.h"
#include "commands/families.h"
#include "commands/large_members.h"
#include "commands/zsets_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/glob.h"
#include "store/numbers.h"
#include "store/zsets.h"

namespace ebbtide {
namespace {

Status find(Ctx& ctx, std::optional<Found>* found, const Wanted& wanted = {}) {
  return find_collection(ctx, ctx.key(), CollectionType::kSortedSet, found, wanted);
}

/// Reads and decodes the sorted set at a key, for a command that changes it.
Status open(Ctx& ctx, const LookupKey& key, std::optional<Found>* old, SortedSet* members, const Wanted& wanted = {}) {
  TRY(find_collection_for_update(ctx, key, CollectionType::kSortedSet, old, wanted));
  if (!*old) return Status::ok();
  TRY_ASSIGN(decoded, decode_sorted_set((*old)->value));
  *members = std::move(decoded);
  return Status::ok();
}

/// Reads and decodes the sorted set at the command's key, for a command that only reads. Its members point into `found`.
Status read_members(Ctx& ctx, std::optional<Found>* found, SortedSet* members, const Wanted& wanted = {}) {
  TRY(find(ctx, found, wanted));
  if (!*found) return Status::ok();
  TRY_ASSIGN(decoded, decode_sorted_set((*found)->value));
  *members = std::move(decoded);
  return Status::ok();
}

// --- ZADD

struct AddOptions {
  bool nx = false, xx = false, gt = false, lt = false, changed = false, increment = false;
  std::size_t first = 2;  ///< the argument with the first score
};

Result<AddOptions> parse_add(const Ctx& ctx, bool increment) {
  AddOptions options;
  options.increment = increment;
  ArgCursor cursor(ctx.args, 2);
  while (true) {
    if (cursor.take_word("NX")) {
      options.nx = true;
    } else if (cursor.take_word("XX")) {
      options.xx = true;
    } else if (cursor.take_word("CH")) {
      options.changed = true;
    } else if (cursor.take_word("INCR")) {
      options.increment = true;
    } else if (cursor.take_word("GT")) {
      options.gt = true;
    } else if (cursor.take_word("LT")) {
      options.lt = true;
    } else {
      break;
    }
  }
  const std::size_t left = cursor.left();
  options.first = ctx.argc() - left;
  if (left == 0 || left % 2 != 0) return syntax_error();
  if (options.nx && options.xx) return reply_error("ERR XX and NX options at the same time are not compatible");
  if ((options.gt && options.nx) || (options.lt && options.nx) || (options.gt && options.lt)) {
    return reply_error("ERR GT, LT, and/or NX options at the same time are not compatible");
  }
  if (options.increment && left > 2) return reply_error("ERR INCR option supports a single increment-element pair");
  return options;
}

Result<double> score_argument(Bytes text, const char* error = "ERR value is not a valid float") {
  const auto score = parse_double(text);
  if (!score) return reply_error(error);
  return *score;
}

/// The numbers of members that ZADD has added and updated.
struct Added {
  std::size_t added = 0, updated = 0;
  std::optional<double> score;  ///< new score of the last member that the options allowed to change
};

/// Applies the options to one member and its new score. Returns false if the resulting score is not a number.
bool add_member(SortedSetEditor* members, const AddOptions& options, Bytes member, double score, Added* done) {
  const auto old = members->score(member);
  if (!old) {
    if (options.xx) return true;
    members->put(member, score);
    ++done->added;
    done->score = score;
    return true;
  }
  if (options.nx) return true;
  if (options.increment) score += *old;
  if (std::isnan(score)) return false;
  if ((options.lt && score >= *old) || (options.gt && score <= *old)) return true;
  if (score != *old) {
    members->put(member, score);
    ++done->updated;
  }
  done->score = score;
  return true;
}

Status add_generic(Ctx& ctx, bool increment) {
  TRY_ASSIGN(options, parse_add(ctx, increment));
  std::vector<double> scores;
  for (std::size_t i = options.first; i < ctx.argc(); i += 2) {
    TRY_ASSIGN(score, score_argument(ctx.arg(i)));
    scores.push_back(score);
  }
  std::optional<Found> old;
  SortedSet members;
  TRY(open(ctx, ctx.key(), &old, &members, Wanted::from(options.first + 1, 2)));
  SortedSetEditor editor(std::move(members), scores.size());
  Added done;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (!add_member(&editor, options, ctx.arg(options.first + 2 * i + 1), scores[i], &done)) {
      return reply_error("ERR resulting score is not a number (NaN)");
    }
  }
  if (done.added + done.updated != 0) TRY(put_changed(ctx, ctx.key(), old, editor.take(), Change::kKeeps));
  if (options.increment) {
    done.score ? ctx.reply.double_(*done.score) : ctx.reply.null();
  } else {
    ctx.reply.integer(static_cast<std::int64_t>(done.added + (options.changed ? done.updated : 0)));
  }
  return Status::ok();
}

Status zadd(Ctx& ctx) { return add_generic(ctx, false); }
Status zincrby(Ctx& ctx) { return add_generic(ctx, true); }

// --- single members

Status zrem(Ctx& ctx) {
  std::optional<Found> old;
  SortedSet members;
  TRY(open(ctx, ctx.key(), &old, &members, Wanted::from(2)));
  SortedSetEditor editor(std::move(members), ctx.argc() - 2);
  std::int64_t removed = 0;
  for (std::size_t i = 2; i < ctx.argc(); ++i) removed += editor.remove(ctx.arg(i)) ? 1 : 0;
  if (removed != 0) TRY(put_changed(ctx, ctx.key(), old, editor.take(), Change::kRemoves));
  ctx.reply.integer(removed);
  return Status::ok();
}

Status zcard(Ctx& ctx) { return reply_count(ctx, CollectionType::kSortedSet); }

Status zscore(Ctx& ctx) {
  std::optional<Found> found;
  TRY(find(ctx, &found, Wanted::one(2)));
  std::optional<RankedScore> place;
  if (found) {
    TRY_ASSIGN(read, find_member(found->value, ctx.arg(2)));
    place = read;
  }
  place ? ctx.reply.double_(place->score) : ctx.reply.null();
  return Status::ok();
}

Status zmscore(Ctx& ctx) {
  std::optional<Found> found;
  SortedSet members;
  TRY(read_members(ctx, &found, &members, Wanted::from(2)));
  const SortedSetEditor scores(std::move(members), ctx.argc() - 2);
  ctx.reply.array(ctx.argc() - 2);
  for (std::size_t i = 2; i < ctx.argc(); ++i) {
    TRY(ctx.work(0));
    const auto score = scores.score(ctx.arg(i));
    score ? ctx.reply.double_(*score) : ctx.reply.null();
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

Status rank_generic(Ctx& ctx, bool reverse) {
  if (ctx.argc() > 4) return wrong_arity(ctx.command);
  const bool with_score = ctx.argc() == 4;
  if (with_score && !equal_ignoring_case(ctx.arg(3), "WITHSCORE")) return syntax_error();
  std::optional<Found> found;
  TRY(locate_collection(ctx, ctx.key(), CollectionType::kSortedSet, &found));
  std::optional<RankedScore> place;
  std::size_t count = 0;
  if (found) {
    TRY_ASSIGN(size, element_count(ctx, *found, CollectionType::kSortedSet));
    count = static_cast<std::size_t>(size);
    TRY_ASSIGN(read, is_large(found) ? rank_member(ctx, ctx.arg(2), &*found) : find_member(found->value, ctx.arg(2)));
    place = read;
  }
  if (!place) {
    with_score ? ctx.reply.null_array() : ctx.reply.null();
    return Status::ok();
  }
  if (with_score) ctx.reply.array(2);
  ctx.reply.integer(static_cast<std::int64_t>(reverse ? count - 1 - place->rank : place->rank));
  if (with_score) ctx.reply.double_(place->score);
  return Status::ok();
}

Status zrank(Ctx& ctx) { return rank_generic(ctx, false); }
Status zrevrank(Ctx& ctx) { return rank_generic(ctx, true); }

// --- ranges

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

/// Parses the options after the range, which begins with argument `min`. `stores`: ZRANGESTORE, which has no WITHSCORES.
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
  // The arguments of a range that is read from its end are max and min, in this order.
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

/// Returns the places of a range of ranks in a sorted set of that size.
Places ranks_of(const RangeRequest& request, std::size_t size) {
  const Places places = places_between(request.start, request.stop, size);
  return request.reverse() && !places.empty() ? Places{size - places.end, size - places.begin} : places;
}

/// Returns the places of the requested range. The caller reads them from their end if the request is reversed.
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

/// Some members of a sorted set: those at `places` among the members that were read.
struct MembersRead {
  SortedSet members;
  Places places;
};

/// Loads the requested range of a large sorted set, which was located. Sets `*all` if it has loaded all members instead.
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

Status reply_members(Ctx& ctx, const SortedSet& members, const Places& places, bool reverse, bool with_scores) {
  reply_pairs_head(ctx.reply, places.size(), with_scores);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ScoredMember& each = members[reverse ? places.end - 1 - i : places.begin + i];
    reply_pair_head(ctx.reply, with_scores);
    ctx.reply.bulk(each.member);
    if (with_scores) ctx.reply.double_(each.score);
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

Status range_generic(Ctx& ctx, RangeBy by, Direction direction) {
  RangeRequest request;
  request.by = by;
  request.direction = direction;
  TRY(parse_range(ctx, 2, false, &request));
  std::optional<Found> found;
  TRY(locate_collection(ctx, ctx.key(), CollectionType::kSortedSet, &found));
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

/// Removes the members at `places`. If the sorted set is large, `members` are only those that were read.
Status remove_places(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, SortedSet members, const Places& places) {
  if (places.empty()) return Status::ok();
  const auto begin = members.begin();
  members.erase(begin + static_cast<std::ptrdiff_t>(places.begin), begin + static_cast<std::ptrdiff_t>(places.end));
  return put_changed(ctx, key, old, members, Change::kRemoves);
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

// --- members with the lowest or highest score

Places places_at_end(std::size_t size, bool highest, std::uint64_t count) {
  const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(count, size));
  return highest ? Places{size - taken, size} : Places{0, taken};
}

/// Reads the members with the lowest or highest scores of a located sorted set.
Result<MembersRead> read_end(Ctx& ctx, bool highest, std::uint64_t count, std::optional<Found>* found) {
  MembersRead read;
  if (!*found) return read;
  const bool large = is_large(*found);
  if (large) {
    TRY_ASSIGN(size, element_count(ctx, **found, CollectionType::kSortedSet));
    TRY(load_members(ctx, places_at_end(static_cast<std::size_t>(size), highest, count), &**found));
  }
  TRY_ASSIGN(decoded, decode_sorted_set((*found)->value));
  read.members = std::move(decoded);
  read.places = large ? Places{0, read.members.size()} : places_at_end(read.members.size(), highest, count);
  return read;
}

/// Replies with the members at `places` as pairs: nested pairs, or a flat array.
Status reply_popped(Ctx& ctx, const SortedSet& members, const Places& places, bool highest, bool nested) {
  ctx.reply.array(nested ? places.size() : 2 * places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ScoredMember& each = members[highest ? places.end - 1 - i : places.begin + i];
    if (nested) ctx.reply.array(2);
    ctx.reply.bulk(each.member);
    ctx.reply.double_(each.score);
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

Status pop_generic(Ctx& ctx, bool highest) {
  if (ctx.argc() > 3) return syntax_error();
  const bool many = ctx.argc() == 3;
  std::uint64_t count = 1;
  if (many) {
    TRY_ASSIGN(number, pop_count_argument(ctx.arg(2)));
    count = number;
  }
  std::optional<Found> old;
  TRY(locate_collection_for_update(ctx, ctx.key(), CollectionType::kSortedSet, &old));
  TRY_ASSIGN(read, read_end(ctx, highest, count, &old));
  TRY(reply_popped(ctx, read.members, read.places, highest, many && ctx.reply.protocol() == 3));
  return remove_places(ctx, ctx.key(), old, std::move(read.members), read.places);
}

Status zpopmin(Ctx& ctx) { return pop_generic(ctx, false); }
Status zpopmax(Ctx& ctx) { return pop_generic(ctx, true); }

/// Pops from the first sorted set among the command's keys, and replies with the key and the members: an array of pairs if `many`
/// is set, else member and score of one. If no key has a sorted set, a command with a timeout waits.
Status pop_from_first(Ctx& ctx, bool highest, std::uint64_t count, bool many, std::optional<std::uint64_t> timeout_ms) {
  std::vector<std::optional<Found>> found;
  std::size_t first = 0;
  TRY(locate_first(ctx, CollectionType::kSortedSet, &found, &first));
  if (first == found.size()) {
    wait_or_reply_null_array(ctx, timeout_ms);
    return Status::ok();
  }
  TRY_ASSIGN(read, read_end(ctx, highest, count, &found[first]));
  ctx.reply.array(many ? 2 : 3);
  ctx.reply.bulk(ctx.arg(static_cast<std::size_t>(ctx.command.spec->keys.first) + first));
  if (many) {
    TRY(reply_popped(ctx, read.members, read.places, highest, true));
  } else {
    ctx.reply.bulk(read.members[read.places.begin].member);
    ctx.reply.double_(read.members[read.places.begin].score);
  }
  return remove_places(ctx, ctx.key(first), found[first], std::move(read.members), read.places);
}

/// ZMPOP and BZMPOP.
Status zmpop(Ctx& ctx) {
  TRY_ASSIGN(cursor, after_popped_keys(ctx));
  const bool highest = cursor.take_word("MAX");
  if (!highest && !cursor.take_word("MIN")) return syntax_error();
  TRY_ASSIGN(count, pop_count_option(cursor));
  TRY_ASSIGN(timeout_ms, wait_argument(ctx, 1));
  return pop_from_first(ctx, highest, count, true, timeout_ms);
}

Status bzpop_generic(Ctx& ctx, bool highest) {
  TRY_ASSIGN(timeout_ms, wait_argument(ctx, ctx.argc() - 1));
  return pop_from_first(ctx, highest, 1, false, timeout_ms);
}

Status bzpopmin(Ctx& ctx) { return bzpop_generic(ctx, false); }
Status bzpopmax(Ctx& ctx) { return bzpop_generic(ctx, true); }

Status zrandmember(Ctx& ctx) {
  TRY_ASSIGN(wanted, parse_random_count(ctx, "WITHSCORES"));
  std::optional<Found> found;
  TRY(locate_collection(ctx, ctx.key(), CollectionType::kSortedSet, &found));
  if (!found) {
    wanted.given ? ctx.reply.array(0) : ctx.reply.null();
    return Status::ok();
  }
  TRY_ASSIGN(choice, choose_random(ctx, wanted, CollectionType::kSortedSet, &*found));
  TRY_ASSIGN(members, decode_sorted_set(found->value));
  return reply_random(ctx, wanted, choice, [&](std::size_t place) {
    ctx.reply.bulk(members[place].member);
    if (wanted.with_values) ctx.reply.double_(members[place].score);
  });
}

Status zscan(Ctx& ctx) {
  return scan_elements<ScoredMember>(ctx, CollectionType::kSortedSet, 2,
                                     [&ctx](const std::optional<Bytes>& match, const ScoredMember& each) {
                                       if (match && !glob_match(*match, each.member)) return false;
                                       char text[32];
                                       ctx.reply.bulk(each.member);
                                       ctx.reply.bulk(Bytes(text, format_double(each.score, text)));
                                       return true;
                                     });
}

// --- operations on several sorted sets

enum class ZsetOperation : std::uint8_t { kUnion, kIntersection, kDifference };

struct Combination {
  ZsetOperation operation{};
  bool stores = false, only_counts = false;
  SourceEntries entries;
  std::vector<SortedSet> members;  ///< the decoded members of each entry
  std::vector<double> weights;     ///< of each source, in the order of the keys
  Aggregate aggregate = Aggregate::kSum;
  bool with_scores = false;
  std::uint64_t limit = 0;  ///< the option LIMIT of ZINTERCARD; 0 = none
};

/// Returns the type of a source: sorted set or set.
Result<CollectionType> source_type(const Found& found) {
  if (!is_collection(found.kind)) return wrong_type();
  const auto type = collection_type_of(found.value);
  if (type == CollectionType::kHash || type == CollectionType::kList) return wrong_type();
  return type == CollectionType::kSet ? CollectionType::kSet : CollectionType::kSortedSet;
}

/// Reads the entries of all sources. Each must be a sorted set or a set.
Status read_entries(Ctx& ctx, std::span<const LookupKey> keys, SourceEntries* entries) {
  TRY(locate_sources(ctx, keys, entries));
  bool resident = true;
  for (auto& each : entries->found) {
    if (!each) continue;
    if (!is_collection(each->kind)) return wrong_type();
    if (is_large(each)) TRY(source_type(*each).status());
    const Status status = read_whole(ctx, &*each);
    if (ctx.too_long) return status;
    resident &= !status.is_not_resident();
    // The loop continues, so that the missing pages of all keys are read together.
    if (!resident) continue;
    TRY(status);
    TRY(source_type(*each).status());
  }
  return resident ? Status::ok() : Status::not_resident();
}

Status parse_weights(ArgCursor* cursor, std::vector<double>* weights) {
  for (double& weight : *weights) {
    TRY_ASSIGN(number, score_argument(cursor->take(), "ERR weight value is not a float"));
    weight = number;
  }
  return Status::ok();
}

Result<Aggregate> aggregate_argument(Bytes word) {
  if (equal_ignoring_case(word, "SUM")) return Aggregate::kSum;
  if (equal_ignoring_case(word, "MIN")) return Aggregate::kMin;
  if (equal_ignoring_case(word, "MAX")) return Aggregate::kMax;
  return syntax_error();
}

Status parse_combination(const Ctx& ctx, std::size_t first_option, Combination* all) {
  const bool weighs = all->operation != ZsetOperation::kDifference && !all->only_counts;
  for (ArgCursor cursor(ctx.args, first_option); !cursor.done();) {
    Bytes value;
    if (weighs && cursor.left() > all->weights.size() && cursor.take_word("WEIGHTS")) {
      TRY(parse_weights(&cursor, &all->weights));
    } else if (weighs && cursor.take_option("AGGREGATE", &value)) {
      TRY_ASSIGN(aggregate, aggregate_argument(value));
      all->aggregate = aggregate;
    } else if (!all->stores && !all->only_counts && cursor.take_word("WITHSCORES")) {
      all->with_scores = true;
    } else if (all->only_counts && cursor.take_option("LIMIT", &value)) {
      const auto limit = parse_integer(value);
      if (!limit || *limit < 0) return reply_error("ERR LIMIT can't be negative");
      all->limit = static_cast<std::uint64_t>(*limit);
    } else {
      return syntax_error();
    }
  }
  return Status::ok();
}

/// Decodes the sources. They point into `all`.
Status decode_sources(Ctx& ctx, Combination* all, std::vector<WeightedSource>* sources) {
  for (const std::optional<Found>& found : all->entries.found) {
    SortedSet& members = all->members.emplace_back();
    if (!found) continue;
    TRY_ASSIGN(type, source_type(*found));
    TRY_ASSIGN(reader, CompactReader::open(found->value, type));
    // The memory for each member: its decoded form, and its place in the result and the result's index.
    constexpr std::size_t kMemberBytes = 2 * sizeof(ScoredMember) + 64;
    TRY(ctx.reserve(reader.count() * kMemberBytes));
    if (type == CollectionType::kSortedSet) {
      TRY_ASSIGN(decoded, decode_sorted_set(found->value));
      members = std::move(decoded);
    } else {
      TRY_ASSIGN(set, decode_set(found->value));
      members.reserve(set.size());
      for (const Bytes member : set) members.push_back({1, member});
    }
  }
  TRY(ctx.reserve(all->weights.size() * sizeof(WeightedSource)));
  std::size_t members = 0;
  for (std::size_t i = 0; i < all->weights.size(); ++i) {
    sources->push_back({all->members[all->entries.entry_of[i]], all->weights[i]});
    members += sources->back().members.size();
  }
  return collection_work(ctx, 0, members);
}

Status combine(Ctx& ctx, Combination* all) {
  const std::size_t count_at = all->stores ? 2 : 1;
  TRY_ASSIGN(keys, integer_argument(ctx.arg(count_at)));
  if (keys < 1) {
    return reply_error("ERR at least 1 input key is needed for '" + std::string(ctx.command.spec->name) + "' command");
  }
  if (std::cmp_greater(keys, ctx.argc() - count_at - 1)) return syntax_error();
  TRY(read_entries(ctx, ctx.keys.subspan(all->stores ? 1 : 0), &all->entries));
  all->weights.assign(all->entries.entry_of.size(), 1.0);
  TRY(parse_combination(ctx, count_at + 1 + static_cast<std::size_t>(keys), all));
  std::vector<WeightedSource> sources;
  TRY(decode_sources(ctx, all, &sources));
  const StopCheck stop = [&ctx] { return ctx.is_cancelled(); };
  const SortedSet result = all->operation == ZsetOperation::kDifference ? without_others(sources, stop)
                           : all->operation == ZsetOperation::kUnion    ? united(std::move(sources), all->aggregate, stop)
                                                                        : common(std::move(sources), all->aggregate, stop);
  TRY(ctx.work(0));  // fails if the operation was ended
  if (all->stores) return store_result(ctx, ctx.key(0), result);
  if (all->only_counts) {
    const std::uint64_t size = all->limit == 0 ? result.size() : std::min<std::uint64_t>(all->limit, result.size());
    ctx.reply.integer(static_cast<std::int64_t>(size));
    return Status::ok();
  }
  return reply_members(ctx, result, {0, result.size()}, false, all->with_scores);
}

Status combine_and_reply(Ctx& ctx, ZsetOperation operation) {
  Combination all;
  all.operation = operation;
  return combine(ctx, &all);
}

Status combine_and_store(Ctx& ctx, ZsetOperation operation) {
  Combination all;
  all.operation = operation;
  all.stores = true;
  return combine(ctx, &all);
}

Status zunion(Ctx& ctx) { return combine_and_reply(ctx, ZsetOperation::kUnion); }
Status zinter(Ctx& ctx) { return combine_and_reply(ctx, ZsetOperation::kIntersection); }
Status zdiff(Ctx& ctx) { return combine_and_reply(ctx, ZsetOperation::kDifference); }
Status zunionstore(Ctx& ctx) { return combine_and_store(ctx, ZsetOperation::kUnion); }
Status zinterstore(Ctx& ctx) { return combine_and_store(ctx, ZsetOperation::kIntersection); }
Status zdiffstore(Ctx& ctx) { return combine_and_store(ctx, ZsetOperation::kDifference); }

Status zintercard(Ctx& ctx) {
  Combination all;
  all.operation = ZsetOperation::kIntersection;
  all.only_counts = true;
  return combine(ctx, &all);
}

constexpr KeySpec kZdiffstoreKeys[] = {{.first = 1, .access = KeySpec::kOw | KeySpec::kUpdate},
                                       {.first = 3, .access = KeySpec::kRo | KeySpec::kAccess, .count_at = 2}};
constexpr KeySpec kZinterstoreKeys[] = {{.first = 1, .access = KeySpec::kOw | KeySpec::kUpdate},
                                        {.first = 3, .access = KeySpec::kRo | KeySpec::kAccess, .count_at = 2}};
constexpr KeySpec kZrangestoreKeys[] = {{.first = 1, .access = KeySpec::kOw | KeySpec::kUpdate},
                                        {.first = 2, .access = KeySpec::kRo | KeySpec::kAccess}};
constexpr KeySpec kZunionstoreKeys[] = {{.first = 1, .access = KeySpec::kOw | KeySpec::kUpdate},
                                        {.first = 3, .access = KeySpec::kRo | KeySpec::kAccess, .count_at = 2}};

constexpr CommandSpec kZsets[] = {
    {.name = "bzmpop",
     .arity = at_least(5),
     .keys = {.first = 3, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete, .count_at = 2},
     .flags = kWrite | kBlocking | kMovableKeys,
     .run = zmpop,
     .since = "7.0.0",
     .complexity =
         "O(K + N) where K is the number of keys, and N that of popped members. Up to 128 elements are read as a whole.",
     .summary =
         "Removes and returns a member by score from one or more sorted sets. Blocks until a member is available otherwise. "
         "Deletes the sorted set if the last element was popped.",
     .group = Group::kSortedSet,
     .arguments = kBzmpopArguments,
     .event = {.name = "zpopmin", .letter = 'z', .before_delete = true}},
    {.name = "bzpopmax",
     .arity = at_least(3),
     .keys = {.first = 1, .last = -2, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
     .flags = kWrite | kNoScript | kBlocking | kFast,
     .run = bzpopmax,
     .since = "5.0.0",
     .complexity = "O(K) where K is the number of keys. Up to 128 elements are read as a whole.",
     .summary =
         "Removes and returns the member with the highest score from one or more sorted sets. Blocks until a member available "
         "otherwise.  Deletes the sorted set if the last element was popped.",
     .group = Group::kSortedSet,
     .arguments = kBzpopmaxArguments,
     .event = {.name = "zpopmax", .letter = 'z', .before_delete = true}},
    {.name = "bzpopmin",
     .arity = at_least(3),
     .keys = {.first = 1, .last = -2, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
     .flags = kWrite | kNoScript | kBlocking | kFast,
     .run = bzpopmin,
     .since = "5.0.0",
     .complexity = "O(K) where K is the number of keys. Up to 128 elements are read as a whole.",
     .summary = "Removes and returns the member with the lowest score from one or more sorted sets. Blocks until a member is "
                "available otherwise. Deletes the sorted set if the last element was popped.",
     .group = Group::kSortedSet,
     .arguments = kBzpopminArguments,
     .event = {.name = "zpopmin", .letter = 'z', .before_delete = true}},
    {.name = "zadd",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kUpdate},
     .flags = kWrite | kDenyOom | kFast,
     .run = zadd,
     .since = "1.2.0",
     .complexity = "O(M) where M is the number of named members. Up to 128 elements are read as a whole.",
     .summary = "Adds one or more members to a sorted set, or updates their scores. Creates the key if it doesn't exist.",
     .group = Group::kSortedSet,
     .arguments = kZaddArguments,
     .event = {.name = "zadd", .letter = 'z'}},
    {.name = "zcard",
     .arity = exactly(2),
     .keys = {.first = 1, .access = KeySpec::kRo},
     .flags = kReadOnly | kFast,
     .run = zcard,
     .since = "1.2.0",
     .complexity = "O(1)",
     .summary = "Returns the number of members in a sorted set.",
     .group = Group::kSortedSet,
     .arguments = kZcardArguments},
    {.name = "zcount",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = zcount,
     .since = "2.0.0",
     .complexity = "O(N) where N is the number of members in the range. Up to 128 elements are read as a whole.",
     .summary = "Returns the count of members in a sorted set that have scores within a range.",
     .group = Group::kSortedSet,
     .arguments = kZcountArguments},
    {.name = "zdiff",
     .arity = at_least(3),
     .keys = {.first = 2, .access = KeySpec::kRo | KeySpec::kAccess, .count_at = 1},
     .flags = kReadOnly | kMovableKeys,
     .run = zdiff,
     .since = "6.2.0",
     .complexity = "O(N + M log M) where N is the size of all given sorted sets, and M that of the result.",
     .summary = "Returns the difference between multiple sorted sets.",
     .group = Group::kSortedSet,
     .arguments = kZdiffArguments},
    {.name = "zdiffstore",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess, .count_at = 2},
     .flags = kWrite | kDenyOom | kMovableKeys,
     .run = zdiffstore,
     .since = "6.2.0",
     .complexity = "O(N + M log M) where N is the size of all given sorted sets, and M that of the result.",
     .summary = "Stores the difference of multiple sorted sets in a key.",
     .group = Group::kSortedSet,
     .arguments = kZdiffstoreArguments,
     .key_specs = kZdiffstoreKeys,
     .event = {.name = "zdiffstore", .letter = 'z'}},
    {.name = "zincrby",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate},
     .flags = kWrite | kDenyOom | kFast,
     .run = zincrby,
     .since = "1.2.0",
     .complexity = "O(M) where M is the number of named members. Up to 128 elements are read as a whole.",
     .summary = "Increments the score of a member in a sorted set.",
     .group = Group::kSortedSet,
     .arguments = kZincrbyArguments,
     .event = {.name = "zincr", .letter = 'z'}},
    {.name = "zinter",
     .arity = at_least(3),
     .keys = {.first = 2, .access = KeySpec::kRo | KeySpec::kAccess, .count_at = 1},
     .flags = kReadOnly | kMovableKeys,
     .run = zinter,
     .since = "6.2.0",
     .complexity = "O(N + M log M) where N is the size of all given sorted sets, and M that of the result.",
     .summary = "Returns the intersect of multiple sorted sets.",
     .group = Group::kSortedSet,
     .arguments = kZinterArguments},
    {.name = "zintercard",
     .arity = at_least(3),
     .keys = {.first = 2, .access = KeySpec::kRo | KeySpec::kAccess, .count_at = 1},
     .flags = kReadOnly | kMovableKeys,
     .run = zintercard,
     .since = "7.0.0",
     .complexity = "O(N) where N is the size of all given sorted sets.",
     .summary = "Returns the number of members of the intersect of multiple sorted sets.",
     .group = Group::kSortedSet,
     .arguments = kZintercardArguments},
    {.name = "zinterstore",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess, .count_at = 2},
     .flags = kWrite | kDenyOom | kMovableKeys,
     .run = zinterstore,
     .since = "2.0.0",
     .complexity = "O(N + M log M) where N is the size of all given sorted sets, and M that of the result.",
     .summary = "Stores the intersect of multiple sorted sets in a key.",
     .group = Group::kSortedSet,
     .arguments = kZinterstoreArguments,
     .key_specs = kZinterstoreKeys,
     .event = {.name = "zinterstore", .letter = 'z'}},
    {.name = "zlexcount",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = zlexcount,
     .since = "2.8.9",
     .complexity = "O(N) where N is the number of members in the range. Up to 128 elements are read as a whole.",
     .summary = "Returns the number of members in a sorted set within a lexicographical range.",
     .group = Group::kSortedSet,
     .arguments = kZlexcountArguments},
    {.name = "zmpop",
     .arity = at_least(4),
     .keys = {.first = 2, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete, .count_at = 1},
     .flags = kWrite | kMovableKeys,
     .run = zmpop,
     .since = "7.0.0",
     .complexity =
         "O(K + N) where K is the number of keys, and N that of popped members. Up to 128 elements are read as a whole.",
     .summary = "Returns the highest- or lowest-scoring members from one or more sorted sets after removing them. Deletes the "
                "sorted set if the last member was popped.",
     .group = Group::kSortedSet,
     .arguments = kZmpopArguments,
     .event = {.name = "zpopmin", .letter = 'z', .before_delete = true}},
    {.name = "zmscore",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = zmscore,
     .since = "6.2.0",
     .complexity = "O(M) where M is the number of named members. Up to 128 elements are read as a whole.",
     .summary = "Returns the score of one or more members in a sorted set.",
     .group = Group::kSortedSet,
     .arguments = kZmscoreArguments},
    {.name = "zpopmax",
     .arity = at_least(2),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
     .flags = kWrite | kFast,
     .run = zpopmax,
     .since = "5.0.0",
     .complexity = "O(N) where N is the number of popped members. Up to 128 elements are read as a whole.",
     .summary = "Returns the highest-scoring members from a sorted set after removing them. Deletes the sorted set if the last "
                "member was popped.",
     .group = Group::kSortedSet,
     .arguments = kZpopmaxArguments,
     .event = {.name = "zpopmax", .letter = 'z', .before_delete = true}},
    {.name = "zpopmin",
     .arity = at_least(2),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
     .flags = kWrite | kFast,
     .run = zpopmin,
     .since = "5.0.0",
     .complexity = "O(N) where N is the number of popped members. Up to 128 elements are read as a whole.",
     .summary = "Returns the lowest-scoring members from a sorted set after removing them. Deletes the sorted set if the last "
                "member was popped.",
     .group = Group::kSortedSet,
     .arguments = kZpopminArguments,
     .event = {.name = "zpopmin", .letter = 'z', .before_delete = true}},
    {.name = "zrandmember",
     .arity = at_least(2),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = zrandmember,
     .since = "6.2.0",
     .complexity = "O(N) where N is the number of members between the nearer end and the chosen one. Up to 128 elements are "
                   "read as a whole.",
     .summary = "Returns one or more random members from a sorted set.",
     .group = Group::kSortedSet,
     .arguments = kZrandmemberArguments},
    {.name = "zrange",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = zrange,
     .since = "1.2.0",
     .complexity = "O(N) where N is the number of members that are skipped and returned. Up to 128 elements are read as a whole.",
     .summary = "Returns members in a sorted set within a range of indexes.",
     .group = Group::kSortedSet,
     .arguments = kZrangeArguments},
    {.name = "zrangebylex",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = zrangebylex,
     .since = "2.8.9",
     .complexity = "O(N) where N is the number of members that are skipped and returned. Up to 128 elements are read as a whole.",
     .summary = "Returns members in a sorted set within a lexicographical range.",
     .group = Group::kSortedSet,
     .arguments = kZrangebylexArguments},
    {.name = "zrangebyscore",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = zrangebyscore,
     .since = "1.0.5",
     .complexity = "O(N) where N is the number of members that are skipped and returned. Up to 128 elements are read as a whole.",
     .summary = "Returns members in a sorted set within a range of scores.",
     .group = Group::kSortedSet,
     .arguments = kZrangebyscoreArguments},
    {.name = "zrangestore",
     .arity = at_least(5),
     .keys = {.first = 1, .last = 2, .access = KeySpec::kRw | KeySpec::kAccess},
     .flags = kWrite | kDenyOom,
     .run = zrangestore,
     .since = "6.2.0",
     .complexity = "O(N) where N is the number of members that are skipped and stored. Up to 128 elements are read as a whole.",
     .summary = "Stores a range of members from sorted set in a key.",
     .group = Group::kSortedSet,
     .arguments = kZrangestoreArguments,
     .key_specs = kZrangestoreKeys,
     .event = {.name = "zrangestore", .letter = 'z'}},
    {.name = "zrank",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = zrank,
     .since = "2.0.0",
     .complexity = "O(N) where N is the number of members between the member and the nearer end. Up to 128 elements are read "
                   "as a whole.",
     .summary = "Returns the index of a member in a sorted set ordered by ascending scores.",
     .group = Group::kSortedSet,
     .arguments = kZrankArguments},
    {.name = "zrem",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kDelete},
     .flags = kWrite | kFast,
     .run = zrem,
     .since = "1.2.0",
     .complexity = "O(M) where M is the number of named members. Up to 128 elements are read as a whole.",
     .summary = "Removes one or more members from a sorted set. Deletes the sorted set if all members were removed.",
     .group = Group::kSortedSet,
     .arguments = kZremArguments,
     .event = {.name = "zrem", .letter = 'z', .before_delete = true}},
    {.name = "zremrangebylex",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kDelete},
     .flags = kWrite,
     .run = zremrangebylex,
     .since = "2.8.9",
     .complexity = "O(N) where N is the number of removed members. Up to 128 elements are read as a whole.",
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
     .complexity = "O(N) where N is the number of members that are skipped and removed. Up to 128 elements are read as a whole.",
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
     .complexity = "O(N) where N is the number of removed members. Up to 128 elements are read as a whole.",
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
     .complexity = "O(N) where N is the number of members that are skipped and returned. Up to 128 elements are read as a whole.",
     .summary = "Returns members in a sorted set within a range of indexes in reverse order.",
     .group = Group::kSortedSet,
     .arguments = kZrevrangeArguments},
    {.name = "zrevrangebylex",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = zrevrangebylex,
     .since = "2.8.9",
     .complexity = "O(N) where N is the number of members that are skipped and returned. Up to 128 elements are read as a whole.",
     .summary = "Returns members in a sorted set within a lexicographical range in reverse order.",
     .group = Group::kSortedSet,
     .arguments = kZrevrangebylexArguments},
    {.name = "zrevrangebyscore",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = zrevrangebyscore,
     .since = "2.2.0",
     .complexity = "O(N) where N is the number of members that are skipped and returned. Up to 128 elements are read as a whole.",
     .summary = "Returns members in a sorted set within a range of scores in reverse order.",
     .group = Group::kSortedSet,
     .arguments = kZrevrangebyscoreArguments},
    {.name = "zrevrank",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = zrevrank,
     .since = "2.0.0",
     .complexity = "O(N) where N is the number of members between the member and the nearer end. Up to 128 elements are read "
                   "as a whole.",
     .summary = "Returns the index of a member in a sorted set ordered by descending scores.",
     .group = Group::kSortedSet,
     .arguments = kZrevrankArguments},
    {.name = "zscan",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = zscan,
     .since = "2.8.0",
     .complexity = "O(1) for each call; O(N) for a whole iteration.",
     .summary = "Iterates over members and scores of a sorted set.",
     .group = Group::kSortedSet,
     .arguments = kZscanArguments},
    {.name = "zscore",
     .arity = exactly(3),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = zscore,
     .since = "1.2.0",
     .complexity = "O(M) where M is the number of named members. Up to 128 elements are read as a whole.",
     .summary = "Returns the score of a member in a sorted set.",
     .group = Group::kSortedSet,
     .arguments = kZscoreArguments},
    {.name = "zunion",
     .arity = at_least(3),
     .keys = {.first = 2, .access = KeySpec::kRo | KeySpec::kAccess, .count_at = 1},
     .flags = kReadOnly | kMovableKeys,
     .run = zunion,
     .since = "6.2.0",
     .complexity = "O(N + M log M) where N is the size of all given sorted sets, and M that of the result.",
     .summary = "Returns the union of multiple sorted sets.",
     .group = Group::kSortedSet,
     .arguments = kZunionArguments},
    {.name = "zunionstore",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess, .count_at = 2},
     .flags = kWrite | kDenyOom | kMovableKeys,
     .run = zunionstore,
     .since = "2.0.0",
     .complexity = "O(N + M log M) where N is the size of all given sorted sets, and M that of the result.",
     .summary = "Stores the union of multiple sorted sets in a key.",
     .group = Group::kSortedSet,
     .arguments = kZunionstoreArguments,
     .key_specs = kZunionstoreKeys,
     .event = {.name = "zunionstore", .letter = 'z'}},
};

}  // namespace

std::span<const CommandSpec> sorted_set_commands() { return kZsets; }

}  // namespace ebbtide
