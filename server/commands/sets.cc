// Sets: SADD, SINTER and the other commands on members. Errors and their order are Redis's.
//
// A small set is one entry, which each write replaces as a whole (store/collections.h). In a large set, commands read and write
// only the members that they name (commands/large_access.h). Members are ordered by their bytes, and so are replies; Redis
// promises no order.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/collection_access.h"
#include "commands/families.h"
#include "commands/sets_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/glob.h"
#include "store/numbers.h"
#include "store/sets.h"

namespace ebbtide {
namespace {

Status find(Ctx& ctx, std::optional<Found>* found, const Wanted& wanted = {}) {
  return find_collection(ctx, ctx.key(), CollectionType::kSet, found, wanted);
}

/// Returns the arguments from `first` on, as a set.
Set set_of_arguments(const Ctx& ctx, std::size_t first) {
  return make_set(std::vector<Bytes>(ctx.args.begin() + static_cast<std::ptrdiff_t>(first), ctx.args.end()));
}

/// Reads and decodes the set at a key, for a command that changes it.
Status open(Ctx& ctx, const LookupKey& key, std::optional<Found>* old, Set* set, const Wanted& wanted = {}) {
  TRY(find_collection_for_update(ctx, key, CollectionType::kSet, old, wanted));
  if (!*old) return Status::ok();
  TRY_ASSIGN(decoded, decode_set((*old)->value));
  *set = std::move(decoded);
  return Status::ok();
}

Status sadd(Ctx& ctx) {
  std::optional<Found> old;
  Set set;
  TRY(open(ctx, ctx.key(), &old, &set, Wanted::from(2)));
  const Set after = united(set, set_of_arguments(ctx, 2));
  const std::size_t added = after.size() - set.size();
  if (added != 0) TRY(put_changed(ctx, ctx.key(), old, CollectionType::kSet, after, Change::kKeeps));
  ctx.reply.integer(static_cast<std::int64_t>(added));
  return Status::ok();
}

Status srem(Ctx& ctx) {
  std::optional<Found> old;
  Set set;
  TRY(open(ctx, ctx.key(), &old, &set, Wanted::from(2)));
  const Set after = without(set, set_of_arguments(ctx, 2));
  const std::size_t removed = set.size() - after.size();
  if (removed != 0) TRY(put_changed(ctx, ctx.key(), old, CollectionType::kSet, after, Change::kRemoves));
  ctx.reply.integer(static_cast<std::int64_t>(removed));
  return Status::ok();
}

Status scard(Ctx& ctx) { return reply_count(ctx, CollectionType::kSet); }

Status sismember(Ctx& ctx) {
  std::optional<Found> found;
  TRY(find(ctx, &found, Wanted::one(2)));
  bool is_member = false;
  if (found) {
    TRY_ASSIGN(has, has_member(found->value, ctx.arg(2)));
    is_member = has;
  }
  ctx.reply.integer(is_member ? 1 : 0);
  return Status::ok();
}

Status smismember(Ctx& ctx) {
  std::optional<Found> found;
  TRY(find(ctx, &found, Wanted::from(2)));
  Set set;
  if (found) {
    TRY_ASSIGN(decoded, decode_set(found->value));
    set = std::move(decoded);
  }
  ctx.reply.array(ctx.argc() - 2);
  for (std::size_t i = 2; i < ctx.argc(); ++i) {
    TRY(ctx.work(0));
    ctx.reply.integer(has_member(set, ctx.arg(i)) ? 1 : 0);
  }
  return Status::ok();
}

Status reply_set(Ctx& ctx, const Set& set) {
  ctx.reply.set(set.size());
  for (const Bytes member : set) {
    ctx.reply.bulk(member);
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

Status smembers(Ctx& ctx) {
  std::optional<Found> found;
  TRY(locate_collection(ctx, ctx.key(), CollectionType::kSet, &found));
  if (is_large(found)) {
    TRY_ASSIGN(header, header_of(*found));
    ctx.reply.set(static_cast<std::size_t>(header.count));
    return visit_elements(ctx, *found, header, [&ctx](Bytes member, Bytes /*value*/) {
      ctx.reply.bulk(member);
      return ctx.reserve_reply();
    });
  }
  Set set;
  if (found) {
    TRY_ASSIGN(decoded, decode_set(found->value));
    set = std::move(decoded);
  }
  return reply_set(ctx, set);
}

Status smove(Ctx& ctx) {
  std::vector<std::optional<Found>> found;
  TRY(locate_entries(ctx, ctx.keys, &found));
  if (!found[0]) {
    ctx.reply.integer(0);
    return Status::ok();
  }
  TRY(read_collection(ctx, CollectionType::kSet, &*found[0], Wanted::one(3)));
  if (found[1]) TRY(read_collection(ctx, CollectionType::kSet, &*found[1], Wanted::one(3)));
  TRY_ASSIGN(source, decode_set(found[0]->value));
  const Set moved = {ctx.arg(3)};
  const bool is_member = has_member(source, ctx.arg(3));
  ctx.reply.integer(is_member ? 1 : 0);
  if (!is_member || ctx.key(0).key == ctx.key(1).key) return Status::ok();
  TRY(put_changed(ctx, ctx.key(0), found[0], CollectionType::kSet, without(source, moved), Change::kRemoves));
  Set target;
  if (found[1]) {
    TRY_ASSIGN(decoded, decode_set(found[1]->value));
    target = std::move(decoded);
  }
  if (has_member(target, ctx.arg(3))) return Status::ok();
  return put_changed(ctx, ctx.key(1), found[1], CollectionType::kSet, united(target, moved), Change::kKeeps);
}

Status spop(Ctx& ctx) {
  if (ctx.argc() > 3) return syntax_error();
  const bool many = ctx.argc() == 3;
  std::uint64_t count = 1;
  if (many) {
    TRY_ASSIGN(number, pop_count_argument(ctx.arg(2)));
    count = number;
  }
  std::optional<Found> old;
  TRY(locate_collection_for_update(ctx, ctx.key(), CollectionType::kSet, &old));
  if (!old || count == 0) {
    many ? ctx.reply.set(0) : ctx.reply.null();
    return Status::ok();
  }
  // Of a large set only the chosen members are read, so `set` has no others.
  TRY_ASSIGN(choice, choose_random(ctx, {.given = many, .count = count}, CollectionType::kSet, &*old));
  TRY_ASSIGN(set, decode_set(old->value));
  Set popped, rest;
  split_set(set, choice.places, &popped, &rest);
  TRY(put_changed(ctx, ctx.key(), old, CollectionType::kSet, rest, Change::kRemoves));
  if (many) return reply_set(ctx, popped);
  ctx.reply.bulk(popped.front());
  return Status::ok();
}

Status srandmember(Ctx& ctx) {
  TRY_ASSIGN(wanted, parse_random_count(ctx, {}));
  std::optional<Found> found;
  TRY(locate_collection(ctx, ctx.key(), CollectionType::kSet, &found));
  if (!found) {
    wanted.given ? ctx.reply.array(0) : ctx.reply.null();
    return Status::ok();
  }
  TRY_ASSIGN(choice, choose_random(ctx, wanted, CollectionType::kSet, &*found));
  TRY_ASSIGN(set, decode_set(found->value));
  return reply_random(ctx, wanted, choice, [&](std::size_t place) { ctx.reply.bulk(set[place]); });
}

Status sscan(Ctx& ctx) {
  return scan_elements<Bytes>(ctx, CollectionType::kSet, 1, [&ctx](const std::optional<Bytes>& match, const Bytes& each) {
    if (match && !glob_match(*match, each)) return false;
    ctx.reply.bulk(each);
    return true;
  });
}

// --- operations on several sets

/// The sets at several keys; a missing key is an empty set. WRONGTYPE for the first key of another type.
struct Sources {
  SourceEntries entries;
  std::vector<Set> sets;  ///< the decoded set of each entry
};

Status read_sources(Ctx& ctx, std::span<const LookupKey> keys, Sources* sources) {
  TRY(locate_sources(ctx, keys, &sources->entries));
  auto& entries = sources->entries.found;
  for (const auto& found : entries) {
    if (found && !is_collection(found->kind)) return wrong_type();
  }
  bool resident = true;
  for (auto& found : entries) {
    if (!found) continue;
    const Status status = read_collection(ctx, CollectionType::kSet, &*found);
    if (ctx.too_long) return status;
    resident &= !status.is_not_resident();
    // The loop continues, so that the missing pages of all keys are read together.
    if (resident) TRY(status);
  }
  if (!resident) return Status::not_resident();
  sources->sets.resize(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i]) continue;
    TRY_ASSIGN(reader, CompactReader::open(entries[i]->value, CollectionType::kSet));
    TRY(ctx.reserve(reader.count() * sizeof(Bytes)));
    TRY_ASSIGN(set, decode_set(entries[i]->value));
    sources->sets[i] = std::move(set);
  }
  return Status::ok();
}

enum class SetOperation : std::uint8_t { kUnion, kIntersection, kDifference };

Status combine(Ctx& ctx, std::span<const LookupKey> keys, SetOperation operation, Sources* sources, Set* result) {
  TRY(read_sources(ctx, keys, sources));
  auto& sets = sources->sets;
  if (operation == SetOperation::kIntersection) {
    std::sort(sets.begin(), sets.end(), [](const Set& a, const Set& b) { return a.size() < b.size(); });
  }
  std::size_t members = 0;
  for (const Set& set : sets) members += set.size();
  TRY(collection_work(ctx, 0, members));
  TRY(ctx.reserve(members * sizeof(Bytes)));  // the result has at most this many members
  switch (operation) {
    case SetOperation::kUnion:
      *result = united(sets);
      break;
    case SetOperation::kIntersection:
      *result = sets[0];
      for (const Set& set : std::span(sets).subspan(1)) *result = common(*result, set);
      break;
    case SetOperation::kDifference: {
      const auto& entry_of = sources->entries.entry_of;
      const bool repeats_first = std::count(entry_of.begin(), entry_of.end(), 0U) > 1;
      *result = repeats_first ? Set() : without(sets[0], united(std::span(sets).subspan(1)));
      break;
    }
  }
  return Status::ok();
}

Status reply_combined(Ctx& ctx, SetOperation operation) {
  Sources sources;
  Set result;
  TRY(combine(ctx, ctx.keys, operation, &sources, &result));
  return reply_set(ctx, result);
}

Status store_combined(Ctx& ctx, SetOperation operation) {
  Sources sources;
  Set result;
  TRY(combine(ctx, ctx.keys.subspan(1), operation, &sources, &result));
  return store_result(ctx, ctx.key(0), CollectionType::kSet, result);
}

Status sunion(Ctx& ctx) { return reply_combined(ctx, SetOperation::kUnion); }
Status sinter(Ctx& ctx) { return reply_combined(ctx, SetOperation::kIntersection); }
Status sdiff(Ctx& ctx) { return reply_combined(ctx, SetOperation::kDifference); }
Status sunionstore(Ctx& ctx) { return store_combined(ctx, SetOperation::kUnion); }
Status sinterstore(Ctx& ctx) { return store_combined(ctx, SetOperation::kIntersection); }
Status sdiffstore(Ctx& ctx) { return store_combined(ctx, SetOperation::kDifference); }

Status sintercard(Ctx& ctx) {
  TRY_ASSIGN(keys, positive_argument(ctx.arg(1), "ERR numkeys should be greater than 0"));
  if (keys > ctx.argc() - 2) return reply_error("ERR Number of keys can't be greater than number of args");
  std::uint64_t limit = 0;
  for (ArgCursor cursor(ctx.args, 2 + static_cast<std::size_t>(keys)); !cursor.done();) {
    Bytes value;
    if (!cursor.take_option("LIMIT", &value)) return syntax_error();
    const auto number = parse_integer(value);
    if (!number || *number < 0) return reply_error("ERR LIMIT can't be negative");
    limit = static_cast<std::uint64_t>(*number);
  }
  Sources sources;
  Set result;
  TRY(combine(ctx, ctx.keys, SetOperation::kIntersection, &sources, &result));
  const std::uint64_t size = limit == 0 ? result.size() : std::min<std::uint64_t>(limit, result.size());
  ctx.reply.integer(static_cast<std::int64_t>(size));
  return Status::ok();
}

constexpr KeySpec kSdiffstoreKeys[] = {{.first = 1, .access = KeySpec::kOw | KeySpec::kUpdate},
                                       {.first = 2, .last = -1, .access = KeySpec::kRo | KeySpec::kAccess}};
constexpr KeySpec kSinterstoreKeys[] = {{.first = 1, .access = KeySpec::kRw | KeySpec::kUpdate},
                                        {.first = 2, .last = -1, .access = KeySpec::kRo | KeySpec::kAccess}};
constexpr KeySpec kSmoveKeys[] = {{.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
                                  {.first = 2, .access = KeySpec::kRw | KeySpec::kInsert}};
constexpr KeySpec kSunionstoreKeys[] = {{.first = 1, .access = KeySpec::kOw | KeySpec::kUpdate},
                                        {.first = 2, .last = -1, .access = KeySpec::kRo | KeySpec::kAccess}};

constexpr CommandSpec kSets[] = {
    {.name = "sadd",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kInsert},
     .flags = kWrite | kDenyOom | kFast,
     .run = sadd,
     .since = "1.0.0",
     .complexity = "O(M) where M is the number of named members. A set of up to 128 members is one entry, which is read whole.",
     .summary = "Adds one or more members to a set. Creates the key if it doesn't exist.",
     .group = Group::kSet,
     .arguments = kSaddArguments,
     .event = {.name = "sadd", .letter = 's'}},
    {.name = "scard",
     .arity = exactly(2),
     .keys = {.first = 1, .access = KeySpec::kRo},
     .flags = kReadOnly | kFast,
     .run = scard,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Returns the number of members in a set.",
     .group = Group::kSet,
     .arguments = kScardArguments},
    {.name = "sdiff",
     .arity = at_least(2),
     .keys = {.first = 1, .last = -1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = sdiff,
     .since = "1.0.0",
     .complexity = "O(N) where N is the size of all given sets.",
     .summary = "Returns the difference of multiple sets.",
     .group = Group::kSet,
     .arguments = kSdiffArguments},
    {.name = "sdiffstore",
     .arity = at_least(3),
     .keys = {.first = 1, .last = -1, .access = KeySpec::kRw | KeySpec::kAccess},
     .flags = kWrite | kDenyOom,
     .run = sdiffstore,
     .since = "1.0.0",
     .complexity = "O(N) where N is the size of all given sets.",
     .summary = "Stores the difference of multiple sets in a key.",
     .group = Group::kSet,
     .arguments = kSdiffstoreArguments,
     .key_specs = kSdiffstoreKeys,
     .event = {.name = "sdiffstore", .letter = 's'}},
    {.name = "sinter",
     .arity = at_least(2),
     .keys = {.first = 1, .last = -1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = sinter,
     .since = "1.0.0",
     .complexity = "O(N) where N is the size of all given sets.",
     .summary = "Returns the intersect of multiple sets.",
     .group = Group::kSet,
     .arguments = kSinterArguments},
    {.name = "sintercard",
     .arity = at_least(3),
     .keys = {.first = 2, .access = KeySpec::kRo | KeySpec::kAccess, .count_at = 1},
     .flags = kReadOnly | kMovableKeys,
     .run = sintercard,
     .since = "7.0.0",
     .complexity = "O(N) where N is the size of all given sets.",
     .summary = "Returns the number of members of the intersect of multiple sets.",
     .group = Group::kSet,
     .arguments = kSintercardArguments},
    {.name = "sinterstore",
     .arity = at_least(3),
     .keys = {.first = 1, .last = -1, .access = KeySpec::kRw | KeySpec::kAccess},
     .flags = kWrite | kDenyOom,
     .run = sinterstore,
     .since = "1.0.0",
     .complexity = "O(N) where N is the size of all given sets.",
     .summary = "Stores the intersect of multiple sets in a key.",
     .group = Group::kSet,
     .arguments = kSinterstoreArguments,
     .key_specs = kSinterstoreKeys,
     .event = {.name = "sinterstore", .letter = 's'}},
    {.name = "sismember",
     .arity = exactly(3),
     .keys = {.first = 1, .access = KeySpec::kRo},
     .flags = kReadOnly | kFast,
     .run = sismember,
     .since = "1.0.0",
     .complexity = "O(M) where M is the number of named members. A set of up to 128 members is one entry, which is read whole.",
     .summary = "Determines whether a member belongs to a set.",
     .group = Group::kSet,
     .arguments = kSismemberArguments},
    {.name = "smembers",
     .arity = exactly(2),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = smembers,
     .since = "1.0.0",
     .complexity = "O(N) where N is the size of the set.",
     .summary = "Returns all members of a set.",
     .group = Group::kSet,
     .arguments = kSmembersArguments},
    {.name = "smismember",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = smismember,
     .since = "6.2.0",
     .complexity = "O(M) where M is the number of named members. A set of up to 128 members is one entry, which is read whole.",
     .summary = "Determines whether multiple members belong to a set.",
     .group = Group::kSet,
     .arguments = kSmismemberArguments},
    {.name = "smove",
     .arity = exactly(4),
     .keys = {.first = 1, .last = 2, .access = KeySpec::kRw | KeySpec::kAccess},
     .flags = kWrite | kFast,
     .run = smove,
     .since = "1.0.0",
     .complexity = "O(M) where M is the number of named members. A set of up to 128 members is one entry, which is read whole.",
     .summary = "Moves a member from one set to another.",
     .group = Group::kSet,
     .arguments = kSmoveArguments,
     .key_specs = kSmoveKeys,
     .event = {.name = "srem", .letter = 's', .before_delete = true}},
    {.name = "spop",
     .arity = at_least(2),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
     .flags = kWrite | kFast,
     .run = spop,
     .since = "1.0.0",
     .complexity = "O(N) where N is the number of members between the nearer end and the chosen one. A set of up to 128 members "
                   "is one entry, which is read whole.",
     .summary =
         "Returns one or more random members from a set after removing them. Deletes the set if the last member was popped.",
     .group = Group::kSet,
     .arguments = kSpopArguments,
     .event = {.name = "spop", .letter = 's', .before_delete = true}},
    {.name = "srandmember",
     .arity = at_least(2),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = srandmember,
     .since = "1.0.0",
     .complexity = "O(N) where N is the number of members between the nearer end and the chosen one. A set of up to 128 members "
                   "is one entry, which is read whole.",
     .summary = "Get one or multiple random members from a set",
     .group = Group::kSet,
     .arguments = kSrandmemberArguments},
    {.name = "srem",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kDelete},
     .flags = kWrite | kFast,
     .run = srem,
     .since = "1.0.0",
     .complexity = "O(M) where M is the number of named members. A set of up to 128 members is one entry, which is read whole.",
     .summary = "Removes one or more members from a set. Deletes the set if the last member was removed.",
     .group = Group::kSet,
     .arguments = kSremArguments,
     .event = {.name = "srem", .letter = 's', .before_delete = true}},
    {.name = "sscan",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = sscan,
     .since = "2.8.0",
     .complexity = "O(1) for each call; O(N) for a whole iteration.",
     .summary = "Iterates over members of a set.",
     .group = Group::kSet,
     .arguments = kSscanArguments},
    {.name = "sunion",
     .arity = at_least(2),
     .keys = {.first = 1, .last = -1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = sunion,
     .since = "1.0.0",
     .complexity = "O(N) where N is the size of all given sets.",
     .summary = "Returns the union of multiple sets.",
     .group = Group::kSet,
     .arguments = kSunionArguments},
    {.name = "sunionstore",
     .arity = at_least(3),
     .keys = {.first = 1, .last = -1, .access = KeySpec::kRw | KeySpec::kAccess},
     .flags = kWrite | kDenyOom,
     .run = sunionstore,
     .since = "1.0.0",
     .complexity = "O(N) where N is the size of all given sets.",
     .summary = "Stores the union of multiple sets in a key.",
     .group = Group::kSet,
     .arguments = kSunionstoreArguments,
     .key_specs = kSunionstoreKeys,
     .event = {.name = "sunionstore", .letter = 's'}},
};

}  // namespace

std::span<const CommandSpec> set_commands() { return kSets; }

}  // namespace ebbtide
