// DEBUG: a small part of Redis's command, for the tests of client libraries. server.debug_commands enables it.
#include <algorithm>
#include <optional>
#include <string>

#include "commands/collection_access.h"
#include "commands/families.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "dispatch/table.h"
#include "store/collections.h"
#include "store/glob.h"
#include "store/key_codec.h"
#include "store/numbers.h"
#include "store/strings.h"

namespace ebbtide {
namespace {

constexpr std::int64_t kMaxMatchedBytes = 1 << 20;

Status protocol(Ctx& ctx) {
  Reply& reply = ctx.reply;
  const Bytes type = ctx.arg(2);
  const auto is = [type](Bytes name) { return equal_ignoring_case(type, name); };
  if (is("string")) {
    reply.bulk("Hello World");
  } else if (is("integer")) {
    reply.integer(12345);
  } else if (is("double")) {
    reply.double_(3.141);
  } else if (is("null")) {
    reply.null();
  } else if (is("array")) {
    reply.array(3);
    for (int i = 0; i < 3; ++i) reply.integer(i);
  } else if (is("set")) {
    reply.set(3);
    for (int i = 0; i < 3; ++i) reply.integer(i);
  } else if (is("map")) {
    reply.map(3);
    for (int i = 0; i < 3; ++i) {
      reply.integer(i);
      reply.boolean(i == 1);
    }
  } else if (is("attrib")) {
    if (reply.protocol() == 3) {
      reply.attribute(1);
      reply.bulk("key-popularity");
      reply.array(2);
      reply.bulk("key:123");
      reply.integer(90);
    }
    reply.bulk("Some real reply following the attribute");
  } else if (is("push")) {
    if (reply.protocol() != 3) return reply_error("ERR RESP2 is not supported by this command");
    reply.push(2);
    reply.bulk("server-cpu-usage");
    reply.integer(42);
    reply.bulk("Some real reply following the push reply");
  } else if (is("true") || is("false")) {
    reply.boolean(is("true"));
  } else if (is("verbatim")) {
    reply.verbatim("txt", "This is a verbatim\nstring");
  } else if (is("bignum")) {
    reply.big_number("1234567999999999999999999999999999999");
  } else {
    return reply_error(
        "ERR Wrong protocol type name. Please use one of the following: "
        "string|integer|double|null|array|set|map|attrib|push|verbatim|true|false");
  }
  return Status::ok();
}

/// Runs DEBUG OBJECT for the key in argument 2. Tools search its reply for field names.
Status object(Ctx& ctx) {
  std::string buffer;
  const Bytes key = escape_key(ctx.arg(2), &buffer);
  std::optional<Found> found;
  TRY(ctx.strings().locate_any({key, hash_key(key)}, &found));
  // Done here, since dispatch counts DEBUG as a command that reads no data.
  ctx.client->seen_seq = std::max(ctx.client->seen_seq, ctx.view.seq());
  if (!found) return reply_error("ERR no such key");
  TRY_ASSIGN(encoding, encoding_of(ctx, &*found));
  ctx.reply.simple("Value at:0x0 refcount:1 encoding:" + std::string(encoding) +
                   " serializedlength:" + std::to_string(found->length + 1) + " lru:0 lru_seconds_idle:0");
  return Status::ok();
}

Status match(Ctx& ctx) {
  TRY_ASSIGN(length, integer_argument_in(ctx.arg(2), 0, kMaxMatchedBytes));
  ctx.reply.integer(glob_match(ctx.arg(3), std::string(static_cast<std::size_t>(length), 'a')) ? 1 : 0);
  return Status::ok();
}

Status debug(Ctx& ctx) {
  TRY(check_debugging(ctx.server(), ctx.client));
  const auto is = [&ctx](Bytes name, std::size_t argc) { return ctx.argc() == argc && equal_ignoring_case(ctx.arg(1), name); };
  if (is("help", 2)) {
    reply_help(ctx.reply, "debug");
  } else if (is("object", 3)) {
    return object(ctx);
  } else if (is("protocol", 3)) {
    return protocol(ctx);
  } else if (is("stringmatch-len", 4)) {
    return match(ctx);
  } else if (is("error", 3)) {
    std::string text(shown(ctx.arg(2), 1024));  // the text is the whole error, code included
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '\r' || c == '\n'; }, ' ');
    ctx.reply.error(text);
  } else if (is("log", 3)) {
    ctx.server().log_message("DEBUG LOG: " + std::string(shown(ctx.arg(2), 1024)));
    ctx.reply.ok();
  } else if (is("set-active-expire", 3)) {
    TRY(integer_argument(ctx.arg(2)).status());
    ctx.reply.ok();
  } else if (is("sleep", 3)) {
    TRY_ASSIGN(seconds, float_argument(ctx.arg(2)));
    ctx.server().sleep_ms(static_cast<std::uint64_t>(std::clamp<long double>(seconds, 0, 3600) * 1000));
    ctx.reply.ok();
  } else {
    return reply_error("ERR unknown subcommand or wrong number of arguments for '" + std::string(shown(ctx.arg(1))) +
                       "'. Try DEBUG HELP.");
  }
  return Status::ok();
}

constexpr CommandSpec kDebug[] = {
    {.name = "debug",
     .arity = at_least(2),
     .flags = kAdmin | kNoScript | kLoading | kStale | kOnLoop,
     .run = debug,
     .since = "1.0.0",
     .complexity = "Depends on subcommand.",
     .summary = "A container for debugging commands.",
     .group = Group::kServer},
};

}  // namespace

std::span<const CommandSpec> debug_commands() { return kDebug; }

}  // namespace ebbtide
