// OBJECT: the encoding that Redis would use for a value, and other facts about it.
//
// This server stores all values as bytes. ENCODING replies with the encoding that Redis would use for the value right after it
// was set. REFCOUNT is 1, and IDLETIME 0, since the server does not record when a key was read.
#include <optional>

#include "commands/collection_access.h"
#include "commands/families.h"
#include "commands/help_spec.h"
#include "commands/keys_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/collections.h"
#include "store/strings.h"

namespace ebbtide {
namespace {

/// Looks up the entry of the key. If it is missing, replies null.
Status look_up(Ctx& ctx, std::optional<Found>* found) {
  TRY(ctx.strings().locate_any(ctx.key(), found));
  if (!found->has_value()) ctx.reply.null();
  return Status::ok();
}

Status encoding(Ctx& ctx) {
  std::optional<Found> found;
  TRY(look_up(ctx, &found));
  if (!found) return Status::ok();
  TRY_ASSIGN(name, encoding_of(ctx, &*found));
  ctx.reply.bulk(name);
  return Status::ok();
}

Status refcount(Ctx& ctx) {
  std::optional<Found> found;
  TRY(look_up(ctx, &found));
  if (found) ctx.reply.integer(1);
  return Status::ok();
}

Status idletime(Ctx& ctx) {
  std::optional<Found> found;
  TRY(look_up(ctx, &found));
  if (found) ctx.reply.integer(0);
  return Status::ok();
}

Status freq(Ctx& ctx) {
  std::optional<Found> found;
  TRY(look_up(ctx, &found));
  if (!found) return Status::ok();
  return reply_error(
      "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between "
      "policies at runtime LRU and LFU data will take some time to adjust.");
}

constexpr KeySpec kKey = {.first = 2, .access = KeySpec::kRo};

constexpr CommandSpec kSubcommands[] = {
    {.name = "encoding",
     .arity = exactly(3),
     .keys = kKey,
     .flags = kReadOnly,
     .run = encoding,
     .since = "2.2.3",
     .complexity = "O(1)",
     .summary = "Returns the internal encoding of a Redis object.",
     .arguments = kObjectArguments,
     .container = "object"},
    {.name = "freq",
     .arity = exactly(3),
     .keys = kKey,
     .flags = kReadOnly,
     .run = freq,
     .since = "4.0.0",
     .complexity = "O(1)",
     .summary = "Returns the logarithmic access frequency counter of a Redis object.",
     .arguments = kObjectArguments,
     .container = "object"},
    help_of("object", "6.2.0"),
    {.name = "idletime",
     .arity = exactly(3),
     .keys = kKey,
     .flags = kReadOnly,
     .run = idletime,
     .since = "2.2.3",
     .complexity = "O(1)",
     .summary = "Returns the time since the last access to a Redis object.",
     .arguments = kObjectArguments,
     .container = "object"},
    {.name = "refcount",
     .arity = exactly(3),
     .keys = kKey,
     .flags = kReadOnly,
     .run = refcount,
     .since = "2.2.3",
     .complexity = "O(1)",
     .summary = "Returns the reference count of a value of a key.",
     .arguments = kObjectArguments,
     .container = "object"},
};

constexpr CommandSpec kObject[] = {
    {.name = "object",
     .arity = at_least(2),
     .since = "2.2.3",
     .complexity = "Depends on subcommand.",
     .summary = "A container for object introspection commands.",
     .subcommands = kSubcommands},
};

}  // namespace

std::span<const CommandSpec> object_commands() { return kObject; }

}  // namespace ebbtide
