// Commands about the connection: PING, ECHO, HELLO, AUTH, SELECT, QUIT, RESET.
#include <limits>
#include <optional>
#include <string>

#include "commands/connection_docs.h"
#include "commands/families.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/permissions.h"
#include "dispatch/table.h"
#include "pubsub/pubsub.h"

namespace ebbtide {
namespace {

/// The version of Redis whose behaviour this server follows.
constexpr Bytes kRedisVersion = "7.2.0";

Status ping(Ctx& ctx) {
  if (ctx.argc() > 2) return wrong_arity(ctx.command);
  if ((ctx.session.modes & Session::kSubscribed) != 0 && ctx.reply.protocol() == 2) {
    ctx.reply.array(2);
    ctx.reply.bulk("pong");
    ctx.argc() == 1 ? ctx.reply.bulk("") : ctx.reply.bulk_shared(ctx.shared_arg(1), ctx.arg(1));
    return Status::ok();
  }
  ctx.argc() == 1 ? ctx.reply.simple("PONG") : ctx.reply.bulk_shared(ctx.shared_arg(1), ctx.arg(1));
  return Status::ok();
}

Status echo(Ctx& ctx) {
  ctx.reply.bulk_shared(ctx.shared_arg(1), ctx.arg(1));
  return Status::ok();
}

Status select(Ctx& ctx) {
  TRY_ASSIGN(index, integer_argument_in(ctx.arg(1), std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
  if (index < 0 || index >= static_cast<std::int64_t>(ctx.server().databases()))
    return reply_error("ERR DB index is out of range");
  ctx.session.database = static_cast<DatabaseId>(index);
  ctx.reply.ok();
  return Status::ok();
}

Status quit(Ctx& ctx) {
  ctx.reply.ok();
  ctx.client->close_after_reply = true;
  return Status::ok();
}

Status reset(Ctx& ctx) {
  // Each call removes at most kSliceArguments subscriptions, and the loop calls again in its next round. Until the reply,
  // messages may still arrive.
  auto* const subscriptions = static_cast<Subscriptions*>(state_of(*ctx.client).subscriptions.get());
  ctx.unfinished = subscriptions != nullptr && !subscriptions->remove_some(Ctx::kSliceArguments);
  if (ctx.unfinished) return Status::ok();
  reset_session(*ctx.client);
  (void)rights_of(ctx.session, ctx.server());  // looks up the rights: if the user has no limits, the session leaves mode kChecked
  ctx.client->authenticated = !ctx.server().password_required();
  ctx.reply.set_protocol(2);
  ctx.reply.simple("RESET");
  return Status::ok();
}

Status authenticate(Ctx& ctx, Bytes user, Bytes password) {
  const auto users = ctx.server().users();
  if (!users->check(user, password)) {
    const bool in_transaction = (ctx.session.modes & Session::kInTransaction) != 0;
    const auto now_ms = static_cast<std::int64_t>(ctx.server().unix_micros() / 1000);
    if (!in_transaction) ctx.session.last_command = &ctx.command;  // the entry in the ACL log shows this command as the last one
    env_of(ctx).observers->acl_log.add({.context = in_transaction ? "multi" : "toplevel",
                                        .object = std::string(ctx.arg(0)),
                                        .user = std::string(user.substr(0, kMaxClientTextBytes)),
                                        .client = describe_client(*ctx.client, now_ms, false),
                                        .updated_ms = now_ms});
    ctx.server().authentication_failed(ctx.client->network, ctx.client->address, user);
    return reply_error("WRONGPASS invalid username-password pair or user is disabled.");
  }
  ctx.client->authenticated = true;
  ctx.session.user = user;
  act_as(ctx.session, users->find(user));
  return Status::ok();
}

Status auth(Ctx& ctx) {
  if (ctx.argc() > 3) return syntax_error();
  if (ctx.argc() == 2 && !ctx.server().password_required()) {
    return reply_error(
        "ERR AUTH <password> called without any password configured for the default user. "
        "Are you sure your configuration is correct?");
  }
  TRY(ctx.argc() == 2 ? authenticate(ctx, "default", ctx.arg(1)) : authenticate(ctx, ctx.arg(1), ctx.arg(2)));
  ctx.reply.ok();
  return Status::ok();
}

struct HelloOptions {
  std::optional<std::int64_t> protocol;
  std::optional<Bytes> user, password, name;
};

Result<HelloOptions> parse_hello(const Ctx& ctx) {
  HelloOptions options;
  if (ctx.argc() == 1) return options;
  const auto version = integer_argument(ctx.arg(1));
  if (!version.is_ok()) return reply_error("ERR Protocol version is not an integer or out of range");
  if (*version != 2 && *version != 3) return reply_error("NOPROTO unsupported protocol version");
  options.protocol = *version;
  for (ArgCursor cursor(ctx.args, 2); !cursor.done();) {
    const Bytes option = cursor.peek();
    if (cursor.left() > 2 && cursor.take_word("AUTH")) {
      options.user = cursor.take();
      options.password = cursor.take();
    } else if (cursor.left() > 1 && cursor.take_word("SETNAME")) {
      options.name = cursor.take();
      if (!is_valid_client_text(*options.name)) return invalid_client_text(*options.name, "Client names");
    } else {
      return reply_error("ERR Syntax error in HELLO option '" + std::string(shown(option)) + "'");
    }
  }
  return options;
}

Status hello(Ctx& ctx) {
  TRY_ASSIGN(options, parse_hello(ctx));
  if (options.user) TRY(authenticate(ctx, *options.user, *options.password));
  if (!ctx.client->authenticated) {
    return reply_error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> "
        "option "
        "can be used to authenticate the client and select the RESP protocol version at the same time");
  }
  if (options.name) ctx.session.name = std::string(*options.name);
  if (options.protocol) ctx.client->protocol = static_cast<int>(*options.protocol);
  Reply& reply = ctx.reply;
  reply.set_protocol(ctx.client->protocol);
  reply.map(7);
  reply.bulk("server");
  reply.bulk("redis");
  reply.bulk("version");
  reply.bulk(kRedisVersion);
  reply.bulk("proto");
  reply.integer(ctx.client->protocol);
  reply.bulk("id");
  reply.integer(static_cast<std::int64_t>(ctx.client_id));
  reply.bulk("mode");
  reply.bulk("standalone");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
  return Status::ok();
}

constexpr auto kAlways = kLoading | kStale | kFast;
constexpr auto kBeforeAuth = kNoScript | kLoading | kStale | kFast | kNoAuth | kAllowBusy;

constexpr CommandSpec kConnection[] = {
    {.name = "ping",
     .arity = at_least(1),
     .flags = kFast | kSubscriber | kAnyThread,
     .run = ping,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Returns the server's liveliness response.",
     .group = Group::kConnection,
     .arguments = kPingArguments},
    {.name = "echo",
     .arity = exactly(2),
     .flags = kAlways | kAnyThread,
     .run = echo,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Returns the given string.",
     .group = Group::kConnection,
     .arguments = kEchoArguments},
    {.name = "hello",
     .arity = at_least(1),
     .flags = kBeforeAuth,
     .run = hello,
     .since = "6.0.0",
     .complexity = "O(1)",
     .summary = "Handshakes with the Redis server.",
     .group = Group::kConnection,
     .arguments = kHelloArguments},
    {.name = "auth",
     .arity = at_least(2),
     .flags = kBeforeAuth,
     .run = auth,
     .since = "1.0.0",
     .complexity = "O(N) where N is the number of passwords defined for the user",
     .summary = "Authenticates the connection.",
     .group = Group::kConnection,
     .arguments = kAuthArguments},
    {.name = "select",
     .arity = exactly(2),
     .flags = kAlways | kAnyThread,
     .run = select,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Changes the selected database.",
     .group = Group::kConnection,
     .arguments = kSelectArguments},
    {.name = "quit",
     .arity = at_least(1),
     .flags = kBeforeAuth | kImmediate | kSubscriber,
     .run = quit,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Closes the connection.",
     .group = Group::kConnection},
    {.name = "reset",
     .arity = exactly(1),
     .flags = kBeforeAuth | kImmediate | kSubscriber,
     .run = reset,
     .since = "6.2.0",
     .complexity = "O(1)",
     .summary = "Resets the connection.",
     .group = Group::kConnection},
};

}  // namespace

std::span<const CommandSpec> connection_commands() { return kConnection; }

}  // namespace ebbtide
