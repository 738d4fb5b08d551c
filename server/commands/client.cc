// CLIENT and its subcommands.
#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "commands/client_tracking.h"
#include "commands/connection_docs.h"
#include "commands/families.h"
#include "commands/help_spec.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

Status set_text(Bytes text, const char* what, std::string* target) {
  if (!is_valid_client_text(text)) return invalid_client_text(text, what);
  *target = std::string(text);
  return Status::ok();
}

Status client_setname(Ctx& ctx) {
  TRY(set_text(ctx.arg(2), "Client names", &ctx.session.name));
  ctx.reply.ok();
  return Status::ok();
}

Status client_getname(Ctx& ctx) {
  ctx.session.name.empty() ? ctx.reply.null() : ctx.reply.bulk(ctx.session.name);
  return Status::ok();
}

Status client_setinfo(Ctx& ctx) {
  if (equal_ignoring_case(ctx.arg(2), "lib-name")) {
    TRY(set_text(ctx.arg(3), "lib-name", &ctx.session.library_name));
  } else if (equal_ignoring_case(ctx.arg(2), "lib-ver")) {
    TRY(set_text(ctx.arg(3), "lib-ver", &ctx.session.library_version));
  } else {
    return reply_error("ERR Unrecognized option '" + std::string(shown(ctx.arg(2))) + "'");
  }
  ctx.reply.ok();
  return Status::ok();
}

Status client_id(Ctx& ctx) {
  ctx.reply.integer(static_cast<std::int64_t>(ctx.client_id));
  return Status::ok();
}

Status client_info(Ctx& ctx) {
  ctx.session.last_command = &ctx.command;
  const auto now_ms = static_cast<std::int64_t>(ctx.server().unix_micros() / 1000);
  ctx.reply.verbatim("txt", describe_client(*ctx.client, now_ms, false) + "\n");
  return Status::ok();
}

Result<std::string> client_type(Bytes name) {
  for (const Bytes known : {"normal", "master", "replica", "pubsub"}) {
    if (equal_ignoring_case(name, known)) return std::string(known);
  }
  if (equal_ignoring_case(name, "slave")) return std::string("replica");
  return reply_error("ERR Unknown client type '" + std::string(shown(name)) + "'");
}

Status client_list(Ctx& ctx) {
  ClientFilter filter;
  if (ctx.argc() == 4 && equal_ignoring_case(ctx.arg(2), "TYPE")) {
    TRY_ASSIGN(type, client_type(ctx.arg(3)));
    filter.type = type;
  } else if (ctx.argc() > 3 && equal_ignoring_case(ctx.arg(2), "ID")) {
    for (std::size_t i = 3; i < ctx.argc(); ++i) {
      const auto id = parse_integer(ctx.arg(i));
      if (!id) return reply_error("ERR Invalid client ID");
      filter.ids.push_back(static_cast<std::uint64_t>(*id));
    }
    std::sort(filter.ids.begin(), filter.ids.end());
  } else if (ctx.argc() != 2) {
    return syntax_error();
  }
  std::deque<std::string> parts;
  std::uint64_t unreserved = 0;
  TRY(ctx.server().client_list(filter, [&](std::string lines) -> Status {
    if (ctx.is_cancelled()) return Status::aborted("the client has disconnected");
    unreserved += lines.size();
    if (unreserved >= Ctx::kReplyStep) TRY(ctx.reserve(std::exchange(unreserved, 0)));
    parts.push_back(std::move(lines));
    return Status::ok();
  }));
  ctx.reply.verbatim_in_parts("txt", std::move(parts));
  return Status::ok();
}

Result<ClientFilter> parse_kill_filter(const Ctx& ctx) {
  ClientFilter filter;
  filter.except_id = ctx.client_id;
  for (ArgCursor cursor(ctx.args, 2); !cursor.done();) {
    Bytes value;
    if (cursor.take_option("ID", &value)) {
      const auto id = parse_integer(value);
      if (!id || *id < 1) return reply_error("ERR client-id should be greater than 0");
      filter.ids.assign(1, static_cast<std::uint64_t>(*id));
    } else if (cursor.take_option("TYPE", &value)) {
      TRY_ASSIGN(type, client_type(value));
      filter.type = type;
    } else if (cursor.take_option("ADDR", &value)) {
      filter.addr = std::string(value);
    } else if (cursor.take_option("LADDR", &value)) {
      filter.laddr = std::string(value);
    } else if (cursor.take_option("USER", &value)) {
      if (ctx.server().users()->find(value) == nullptr)
        return reply_error("ERR No such user '" + std::string(shown(value)) + "'");
      filter.user = std::string(value);
    } else if (cursor.take_option("SKIPME", &value)) {
      if (!equal_ignoring_case(value, "yes") && !equal_ignoring_case(value, "no")) return syntax_error();
      filter.except_id = equal_ignoring_case(value, "yes") ? ctx.client_id : 0;
    } else {
      return syntax_error();
    }
  }
  return filter;
}

Status client_kill(Ctx& ctx) {
  if (ctx.argc() == 3) {  // the old form CLIENT KILL addr may close the client itself, too
    ClientFilter filter;
    filter.addr = std::string(ctx.arg(2));
    if (ctx.server().kill_clients(filter, ctx.client_id) == 0) return reply_error("ERR No such client");
    ctx.reply.ok();
    return Status::ok();
  }
  TRY_ASSIGN(filter, parse_kill_filter(ctx));
  ctx.reply.integer(static_cast<std::int64_t>(ctx.server().kill_clients(filter, ctx.client_id)));
  return Status::ok();
}

Status set_switch(Ctx& ctx, bool* flag) {
  if (equal_ignoring_case(ctx.arg(2), "on")) {
    *flag = true;
  } else if (equal_ignoring_case(ctx.arg(2), "off")) {
    *flag = false;
  } else {
    return syntax_error();
  }
  ctx.reply.ok();
  return Status::ok();
}

Status client_no_evict(Ctx& ctx) { return set_switch(ctx, &ctx.session.no_evict); }
Status client_no_touch(Ctx& ctx) { return set_switch(ctx, &ctx.session.no_touch); }

Status client_reply(Ctx& ctx) {
  if (equal_ignoring_case(ctx.arg(2), "on")) {
    ctx.session.replies = Session::Replies::kOn;
    ctx.reply.ok();
  } else if (equal_ignoring_case(ctx.arg(2), "off")) {
    ctx.session.replies = Session::Replies::kOff;
  } else if (equal_ignoring_case(ctx.arg(2), "skip")) {
    if (ctx.session.replies != Session::Replies::kOff) ctx.session.replies = Session::Replies::kSkipNext;
  } else {
    return syntax_error();
  }
  return Status::ok();
}

constexpr ArgDoc kSetinfoAttributes[] = {
    {.name = "libname", .token = "LIB-NAME"},
    {.name = "libver", .token = "LIB-VER"},
};
constexpr ArgDoc kSetinfoArguments[] = {
    {.name = "attr", .type = Type::kOneOf, .arguments = kSetinfoAttributes},
};

constexpr auto kFlags = kNoScript | kLoading | kStale;
constexpr auto kAdminFlags = kFlags | kAdmin;
constexpr auto kGroup = Group::kConnection;
constexpr Bytes kClient = "client";

constexpr CommandSpec kSubcommands[] = {
    {.name = "setname",
     .arity = exactly(3),
     .flags = kFlags,
     .run = client_setname,
     .since = "2.6.9",
     .complexity = "O(1)",
     .summary = "Sets the connection name.",
     .group = kGroup,
     .arguments = kClientSetnameArguments,
     .container = kClient},
    {.name = "getname",
     .arity = exactly(2),
     .flags = kFlags,
     .run = client_getname,
     .since = "2.6.9",
     .complexity = "O(1)",
     .summary = "Returns the name of the connection.",
     .group = kGroup,
     .container = kClient},
    {.name = "setinfo",
     .arity = exactly(4),
     .flags = kFlags,
     .run = client_setinfo,
     .since = "7.2.0",
     .complexity = "O(1)",
     .summary = "Sets information specific to the client or connection.",
     .group = kGroup,
     .arguments = kSetinfoArguments,
     .container = kClient},
    {.name = "id",
     .arity = exactly(2),
     .flags = kFlags,
     .run = client_id,
     .since = "5.0.0",
     .complexity = "O(1)",
     .summary = "Returns the unique client ID of the connection.",
     .group = kGroup,
     .container = kClient},
    {.name = "info",
     .arity = exactly(2),
     .flags = kFlags,
     .run = client_info,
     .since = "6.2.0",
     .complexity = "O(1)",
     .summary = "Returns information about the connection.",
     .group = kGroup,
     .container = kClient},
    {.name = "list",
     .arity = at_least(2),
     .flags = kAdminFlags | kOffload | kNeverInline,
     .run = client_list,
     .since = "2.4.0",
     .complexity = "O(N) where N is the number of client connections",
     .summary = "Lists open connections.",
     .group = kGroup,
     .arguments = kClientListArguments,
     .container = kClient},
    {.name = "kill",
     .arity = at_least(3),
     .flags = kAdminFlags | kOffload | kNeverInline,
     .run = client_kill,
     .since = "2.4.0",
     .complexity = "O(N) where N is the number of client connections",
     .summary = "Terminates open connections.",
     .group = kGroup,
     .arguments = kClientKillArguments,
     .container = kClient},
    {.name = "no-evict",
     .arity = exactly(3),
     .flags = kAdminFlags,
     .run = client_no_evict,
     .since = "7.0.0",
     .complexity = "O(1)",
     .summary = "Sets the client eviction mode of the connection.",
     .group = kGroup,
     .arguments = kClientNoEvictArguments,
     .container = kClient},
    {.name = "no-touch",
     .arity = exactly(3),
     .flags = kFlags,
     .run = client_no_touch,
     .since = "7.2.0",
     .complexity = "O(1)",
     .summary = "Controls whether commands sent by the client affect the LRU/LFU of accessed keys.",
     .group = kGroup,
     .arguments = kClientNoEvictArguments,
     .container = kClient},
    {.name = "reply",
     .arity = exactly(3),
     .flags = kFlags,
     .run = client_reply,
     .since = "3.2.0",
     .complexity = "O(1)",
     .summary = "Instructs the server whether to reply to commands.",
     .group = kGroup,
     .arguments = kClientReplyArguments,
     .container = kClient},
    {.name = "tracking",
     .arity = at_least(3),
     .flags = kFlags | kOnLoop,
     .run = client_tracking,
     .since = "6.0.0",
     .complexity = "O(1)",
     .summary = "Controls whether the server notifies the connection of changes to keys that it has read.",
     .group = kGroup,
     .arguments = kTrackingArguments,
     .container = kClient},
    {.name = "caching",
     .arity = exactly(3),
     .flags = kFlags | kOnLoop,
     .run = client_caching,
     .since = "6.0.0",
     .complexity = "O(1)",
     .summary = "Sets whether the keys of the connection's next command are tracked.",
     .group = kGroup,
     .arguments = kCachingArguments,
     .container = kClient},
    {.name = "getredir",
     .arity = exactly(2),
     .flags = kFlags | kOnLoop,
     .run = client_getredir,
     .since = "6.0.0",
     .complexity = "O(1)",
     .summary = "Returns the id of the client that gets the connection's invalidations.",
     .group = kGroup,
     .container = kClient},
    {.name = "trackinginfo",
     .arity = exactly(2),
     .flags = kFlags | kOnLoop,
     .run = client_trackinginfo,
     .since = "6.2.0",
     .complexity = "O(1)",
     .summary = "Describes how the connection's keys are tracked.",
     .group = kGroup,
     .container = kClient},
    {.name = "pause",
     .arity = at_least(3),
     .flags = kAdminFlags,
     .run = client_pause,
     .since = "3.0.0",
     .complexity = "O(1)",
     .summary = "Delays all commands, or those that write, for some time.",
     .group = kGroup,
     .arguments = kPauseArguments,
     .container = kClient},
    {.name = "unpause",
     .arity = exactly(2),
     .flags = kAdminFlags,
     .run = client_unpause,
     .since = "6.2.0",
     .complexity = "O(1)",
     .summary = "Ends a pause.",
     .group = kGroup,
     .container = kClient},
    {.name = "unblock",
     .arity = at_least(3),
     .flags = kAdminFlags,
     .run = client_unblock,
     .since = "5.0.0",
     .complexity = "O(1)",
     .summary = "Ends the wait of a client in a blocking command.",
     .group = kGroup,
     .arguments = kUnblockArguments,
     .container = kClient},
    help_of(kClient, "5.0.0", kGroup),
};

constexpr CommandSpec kClients[] = {
    {.name = kClient,
     .arity = at_least(2),
     .since = "2.4.0",
     .complexity = "Depends on subcommand.",
     .summary = "A container for client connection commands.",
     .group = kGroup,
     .subcommands = kSubcommands},
};

}  // namespace

std::span<const CommandSpec> client_commands() { return kClients; }

}  // namespace ebbtide
