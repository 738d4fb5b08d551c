// Sorted sets: ZADD, ZSCORE, ZPOPMIN and the other commands on single members. Errors and their order are Redis's. Ranges are in
// zset_ranges.cc, operations on several sorted sets in zset_combinations.cc.
//
// A small sorted set is one entry, which each write replaces as a whole (store/collections.h). In a large one, commands read and
// write only the members that they name (commands/large_access.h) or a range of them (commands/large_members.h). Changing a
// member's score is not a delete: it leaves no delete debt.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "commands/collection_access.h"
#include "commands/families.h"
#include "commands/large_members.h"
#include "commands/zset_members.h"
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
  std::size_t first = 2;  ///< index of the argument with the first score
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

/// How many members ZADD has added, and how many it has updated.
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

/// Pops from the first sorted set among the command's keys. Replies with the key and, if `many`, an array of members and scores,
/// else one member and its score. If no key has a sorted set, a command with a timeout waits.
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

constexpr CommandSpec kZsets[] = {
    {.name = "bzmpop",
     .arity = at_least(5),
     .keys = {.first = 3, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete, .count_at = 2},
     .flags = kWrite | kBlocking | kMovableKeys,
     .run = zmpop,
     .since = "7.0.0",
     .complexity = "O(K + N) where K is the number of keys, and N that of popped members. A sorted set of up to 128 members is "
                   "one entry, which is read whole.",
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
     .complexity = "O(K) where K is the number of keys. A sorted set of up to 128 members is one entry, which is read whole.",
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
     .complexity = "O(K) where K is the number of keys. A sorted set of up to 128 members is one entry, which is read whole.",
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
     .complexity =
         "O(M) where M is the number of named members. A sorted set of up to 128 members is one entry, which is read whole.",
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
    {.name = "zincrby",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate},
     .flags = kWrite | kDenyOom | kFast,
     .run = zincrby,
     .since = "1.2.0",
     .complexity =
         "O(M) where M is the number of named members. A sorted set of up to 128 members is one entry, which is read whole.",
     .summary = "Increments the score of a member in a sorted set.",
     .group = Group::kSortedSet,
     .arguments = kZincrbyArguments,
     .event = {.name = "zincr", .letter = 'z'}},
    {.name = "zmpop",
     .arity = at_least(4),
     .keys = {.first = 2, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete, .count_at = 1},
     .flags = kWrite | kMovableKeys,
     .run = zmpop,
     .since = "7.0.0",
     .complexity = "O(K + N) where K is the number of keys, and N that of popped members. A sorted set of up to 128 members is "
                   "one entry, which is read whole.",
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
     .complexity =
         "O(M) where M is the number of named members. A sorted set of up to 128 members is one entry, which is read whole.",
     .summary = "Returns the score of one or more members in a sorted set.",
     .group = Group::kSortedSet,
     .arguments = kZmscoreArguments},
    {.name = "zpopmax",
     .arity = at_least(2),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
     .flags = kWrite | kFast,
     .run = zpopmax,
     .since = "5.0.0",
     .complexity =
         "O(N) where N is the number of popped members. A sorted set of up to 128 members is one entry, which is read whole.",
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
     .complexity =
         "O(N) where N is the number of popped members. A sorted set of up to 128 members is one entry, which is read whole.",
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
     .complexity = "O(N) where N is the number of members between the nearer end and the chosen one. A sorted set of up to 128 "
                   "members is one entry, which is read whole.",
     .summary = "Returns one or more random members from a sorted set.",
     .group = Group::kSortedSet,
     .arguments = kZrandmemberArguments},
    {.name = "zrank",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = zrank,
     .since = "2.0.0",
     .complexity = "O(N) where N is the number of members between the member and the nearer end. A sorted set of up to 128 "
                   "members is one entry, which is read whole.",
     .summary = "Returns the index of a member in a sorted set ordered by ascending scores.",
     .group = Group::kSortedSet,
     .arguments = kZrankArguments},
    {.name = "zrem",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kDelete},
     .flags = kWrite | kFast,
     .run = zrem,
     .since = "1.2.0",
     .complexity =
         "O(M) where M is the number of named members. A sorted set of up to 128 members is one entry, which is read whole.",
     .summary = "Removes one or more members from a sorted set. Deletes the sorted set if all members were removed.",
     .group = Group::kSortedSet,
     .arguments = kZremArguments,
     .event = {.name = "zrem", .letter = 'z', .before_delete = true}},
    {.name = "zrevrank",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = zrevrank,
     .since = "2.0.0",
     .complexity = "O(N) where N is the number of members between the member and the nearer end. A sorted set of up to 128 "
                   "members is one entry, which is read whole.",
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
     .complexity =
         "O(M) where M is the number of named members. A sorted set of up to 128 members is one entry, which is read whole.",
     .summary = "Returns the score of a member in a sorted set.",
     .group = Group::kSortedSet,
     .arguments = kZscoreArguments},
};

}  // namespace

std::span<const CommandSpec> sorted_set_commands() { return kZsets; }

}  // namespace ebbtide
