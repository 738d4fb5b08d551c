// Strings as numbers: INCR, DECR and similar commands. A changed number keeps its expiry and stamp. A large value is never a
// number, so it is not read: it is treated like an empty text, for which the command replies with the right error.
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "commands/families.h"
#include "commands/strings_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/numbers.h"
#include "store/strings.h"

namespace ebbtide {
namespace {

Status add(Ctx& ctx, std::int64_t delta) {
  Strings strings = ctx.strings();
  std::optional<Found> old;
  TRY(strings.locate_for_update(ctx.key(), &old));
  std::int64_t value = 0;
  if (old) {
    TRY_ASSIGN(parsed, integer_argument(old->value));
    value = parsed;
  }
  if (__builtin_add_overflow(value, delta, &value)) return reply_error("ERR increment or decrement would overflow");
  strings.modify(ctx.key(), old, to_text(value), &ctx.charge);
  ctx.reply.integer(value);
  return Status::ok();
}

Status incr(Ctx& ctx) { return add(ctx, 1); }
Status decr(Ctx& ctx) { return add(ctx, -1); }

Status incrby(Ctx& ctx) {
  TRY_ASSIGN(delta, integer_argument(ctx.arg(2)));
  return add(ctx, delta);
}

Status decrby(Ctx& ctx) {
  TRY_ASSIGN(delta, integer_argument(ctx.arg(2)));
  if (delta == std::numeric_limits<std::int64_t>::min()) return reply_error("ERR decrement would overflow");
  return add(ctx, -delta);
}

Status incrbyfloat(Ctx& ctx) {
  Strings strings = ctx.strings();
  std::optional<Found> old;
  TRY(strings.locate_for_update(ctx.key(), &old));
  long double value = 0;
  if (old) {
    TRY_ASSIGN(parsed, float_argument(old->value));
    value = parsed;
  }
  TRY_ASSIGN(delta, float_argument(ctx.arg(2)));
  value += delta;
  if (std::isnan(value) || std::isinf(value)) return reply_error("ERR increment would produce NaN or Infinity");
  const std::string text = to_text(value);
  strings.modify(ctx.key(), old, text, &ctx.charge);
  ctx.reply.bulk(text);
  return Status::ok();
}

constexpr KeySpec kNumber = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate};
constexpr auto kFlags = kWrite | kDenyOom | kFast;

constexpr CommandSpec kCounters[] = {
    {.name = "incr",
     .arity = exactly(2),
     .keys = kNumber,
     .flags = kFlags,
     .run = incr,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Increments the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.",
     .group = Group::kString,
     .arguments = kIncrArguments},
    {.name = "decr",
     .arity = exactly(2),
     .keys = kNumber,
     .flags = kFlags,
     .run = decr,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Decrements the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.",
     .group = Group::kString,
     .arguments = kDecrArguments},
    {.name = "incrby",
     .arity = exactly(3),
     .keys = kNumber,
     .flags = kFlags,
     .run = incrby,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Increments the integer value of a key by a number. Uses 0 as initial value if the key doesn't exist.",
     .group = Group::kString,
     .arguments = kIncrbyArguments},
    {.name = "decrby",
     .arity = exactly(3),
     .keys = kNumber,
     .flags = kFlags,
     .run = decrby,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Decrements a number from the integer value of a key. Uses 0 as initial value if the key doesn't exist.",
     .group = Group::kString,
     .arguments = kDecrbyArguments},
    {.name = "incrbyfloat",
     .arity = exactly(3),
     .keys = kNumber,
     .flags = kFlags,
     .run = incrbyfloat,
     .since = "2.6.0",
     .complexity = "O(1)",
     .summary = "Increment the floating point value of a key by a number. Uses 0 as initial value if the key doesn't exist.",
     .group = Group::kString,
     .arguments = kIncrbyfloatArguments},
};

}  // namespace

std::span<const CommandSpec> counter_commands() { return kCounters; }

}  // namespace ebbtide
