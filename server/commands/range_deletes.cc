// DELRANGE, DELPREFIX and COUNTRANGE: deletes and counts of all keys in a range.
//
// A range delete is one operation for any number of keys. It holds all locks, so that no command that has read a value before the
// delete writes the value back afterwards.
#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "commands/exec_walk.h"
#include "commands/families.h"
#include "commands/purge_ticket.h"
#include "commands/range_argument.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "store/key_codec.h"

namespace ebbtide {
namespace {

using Type = ArgDoc::Type;

/// Returns a bound of the range; nullopt for "-" and "+", which mean no bound.
std::optional<Bytes> bound(Bytes argument) {
  if (argument == "-" || argument == "+") return std::nullopt;
  return argument;
}

/// The most bytes of a bound; keys may be longer. Bounds of range tombstones stay in memory while their files are open, and may
/// become bounds of files.
constexpr std::size_t kMostBoundBytes = std::size_t{64} << 10;

/// Fails if a bound is too long.
Status check_bound(Bytes argument) {
  const auto zeros =
      static_cast<std::size_t>(argument.size() <= kMostBoundBytes ? std::count(argument.begin(), argument.end(), '\0') : 0);
  if (argument.size() + zeros <= kMostBoundBytes) return Status::ok();
  return reply_error("ERR a bound of " + std::to_string(argument.size()) +
                     " bytes is too long: " + std::to_string(kMostBoundBytes) + " bytes are allowed, zero bytes counting twice");
}

}  // namespace

Result<KeyRange> range_argument(const Ctx& ctx, std::size_t i) {
  TRY(check_bound(ctx.arg(i)));
  TRY(check_bound(ctx.arg(i + 1)));
  const std::optional<Bytes> nothing = Bytes();
  if (ctx.arg(i) == "+" || ctx.arg(i + 1) == "-") return engine_range(nothing, nothing);
  return engine_range(bound(ctx.arg(i)), bound(ctx.arg(i + 1)));
}

namespace {

Status delete_keys(Ctx& ctx, const KeyRange& range) {
  TRY(range_delete_work(ctx, range.start.size() + range.end.size()));
  // nothing was ever written to a database without a tree
  if (ctx.has_tree() && !is_empty(range)) ctx.batch.delete_range(ctx.session.database, range.start, range.end);
  ctx.after_commit = reply_ticket;
  return Status::ok();
}

Status delrange(Ctx& ctx) {
  TRY_ASSIGN(range, range_argument(ctx, 1));
  return delete_keys(ctx, range);
}

Status delprefix(Ctx& ctx) {
  TRY(check_bound(ctx.arg(1)));
  return delete_keys(ctx, engine_prefix_range(ctx.arg(1)));
}

/// Without EXACT, COUNTRANGE counts up to this many keys, and skips up to kMaxCountSteps versions. Beyond that it estimates.
constexpr std::uint64_t kMaxCountedKeys = 100'000;
constexpr std::uint64_t kMaxCountSteps = 1'000'000;

struct RangeCount {
  std::uint64_t keys = 0;
  bool complete = false;
};

Result<RangeCount> count_keys(const Ctx& ctx, const KeyRange& range, bool exact) {
  RangeCount out;
  IteratorOptions options;
  options.bounds = range;
  if (!exact || ctx.in_exec()) options.max_steps = ctx.in_exec() ? walk_limit(ctx) : kMaxCountSteps;
  const auto walk = ctx.iterate(options);
  ExecWalk limit(ctx, *walk);
  std::uint64_t looked_at = 0;
  const auto too_many = [] {
    return reply_error("ERR COUNTRANGE EXACT inside a transaction counts at most " + std::to_string(Ctx::kExecKeys) + " keys");
  };
  for (walk->seek_to_first(); walk->valid() && !ctx.is_cancelled(); walk->next()) {
    if (limit.is_spent(++looked_at)) {
      if (exact) return too_many();
      return out;
    }
    if (is_element_key(walk->key())) continue;
    if (!exact && (out.keys == kMaxCountedKeys || walk->steps() >= kMaxCountSteps)) return out;
    ++out.keys;
  }
  if (walk->paused()) {
    if (exact) return too_many();
    return out;
  }
  TRY(walk->status());
  out.complete = true;
  return out;
}

Status countrange(Ctx& ctx) {
  ArgCursor cursor(ctx.args, 3);
  const bool exact = cursor.take_word("EXACT");
  if (!cursor.done()) return syntax_error();
  TRY_ASSIGN(range, range_argument(ctx, 1));
  std::uint64_t count = 0;
  if (ctx.has_tree() && !is_empty(range)) {
    TRY_ASSIGN(counted, count_keys(ctx, range, exact));
    count = counted.keys;
    if (!counted.complete && ctx.in_exec()) TRY(ctx.work(kEstimateBytes));
    if (!counted.complete) count = std::max(count, env_of(ctx).db->estimate_keys(ctx.session.database, range));
  }
  ctx.reply.integer(static_cast<std::int64_t>(count));
  return Status::ok();
}

constexpr ArgDoc kRangeArguments[] = {
    {.name = "start"},
    {.name = "end"},
};
constexpr ArgDoc kPrefixArguments[] = {
    {.name = "prefix"},
};
constexpr ArgDoc kCountArguments[] = {
    {.name = "start"},
    {.name = "end"},
    {.name = "exact", .type = Type::kPureToken, .token = "EXACT", .flags = ArgDoc::kOptional},
};

constexpr auto kRangeDelete = kWrite | kDangerous | kLockAll | kReplySynced;
constexpr auto kOwn = Group::kExtension;

constexpr CommandSpec kRangeDeletes[] = {
    {.name = "delrange",
     .arity = exactly(3),
     .flags = kRangeDelete,
     .run = delrange,
     .since = "0.1.0",
     .complexity = "O(1)",
     .summary = "Deletes every key from start up to, but not including, end; - and + leave an end open. Returns a purge ticket.",
     .group = kOwn,
     .arguments = kRangeArguments,
     .extra_acl = "@keyspace",
     .scope = KeyScope::kRange},
    {.name = "delprefix",
     .arity = exactly(2),
     .flags = kRangeDelete,
     .run = delprefix,
     .since = "0.1.0",
     .complexity = "O(1)",
     .summary = "Deletes every key that starts with a prefix. Returns a purge ticket.",
     .group = kOwn,
     .arguments = kPrefixArguments,
     .extra_acl = "@keyspace",
     .scope = KeyScope::kPrefix},
    {.name = "countrange",
     .arity = at_least(3),
     .flags = kReadOnly | kOffload | kLong,
     .run = countrange,
     .since = "0.1.0",
     .complexity = "O(N) where N is the number of keys in the range, with EXACT; without it, at most a hundred thousand of them.",
     .summary = "Counts the keys from start up to, but not including, end; - and + leave an end open. Estimates a large number, "
                "unless EXACT is given.",
     .group = kOwn,
     .arguments = kCountArguments,
     .extra_acl = "@keyspace",
     .scope = KeyScope::kRange},
};

}  // namespace

std::span<const CommandSpec> range_delete_commands() { return kRangeDeletes; }

}  // namespace ebbtide
