// Operations on several sorted sets: ZUNION, ZINTER, ZDIFF, their STORE forms and ZINTERCARD. Errors and their order are Redis's.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/collection_access.h"
#include "commands/families.h"
#include "commands/zset_members.h"
#include "commands/zsets_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

enum class ZsetOperation : std::uint8_t { kUnion, kIntersection, kDifference };

struct Combination {
  ZsetOperation operation{};
  bool stores = false, only_counts = false;
  SourceEntries entries;
  std::vector<SortedSet> members;  ///< the decoded members of each entry
  std::vector<double> weights;     ///< weight of each source, in the order of the keys
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

/// Decodes the sources; they point into `all`.
Status decode_sources(Ctx& ctx, Combination* all, std::vector<WeightedSource>* sources) {
  for (const std::optional<Found>& found : all->entries.found) {
    SortedSet& members = all->members.emplace_back();
    if (!found) continue;
    TRY_ASSIGN(type, source_type(*found));
    TRY_ASSIGN(reader, CompactReader::open(found->value, type));
    // Memory for each member: its decoded form, its element in the result, and its entry in the result's index.
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
  TRY(ctx.work(0));  // fails if the operation was stopped
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
constexpr KeySpec kZunionstoreKeys[] = {{.first = 1, .access = KeySpec::kOw | KeySpec::kUpdate},
                                        {.first = 3, .access = KeySpec::kRo | KeySpec::kAccess, .count_at = 2}};

constexpr CommandSpec kCombinations[] = {
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

std::span<const CommandSpec> zset_combine_commands() { return kCombinations; }

}  // namespace ebbtide
