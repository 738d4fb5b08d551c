// ACL: lists users, and names the connection's user. Users come from a file (acl/users.h). All have the same rights, so no
// subcommand changes a user.
#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "commands/families.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/table.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

/// All categories of Redis 7.2, in its order. Some have no command in this server.
constexpr std::array<Bytes, 21> kCategories = {"keyspace",   "read",        "write",    "set",         "sortedset", "list",
                                               "hash",       "string",      "bitmap",   "hyperloglog", "geo",       "stream",
                                               "pubsub",     "admin",       "fast",     "slow",        "blocking",  "dangerous",
                                               "connection", "transaction", "scripting"};

Status acl_whoami(Ctx& ctx) {
  ctx.reply.bulk(user_of(ctx.session));
  return Status::ok();
}

Status acl_list(Ctx& ctx) {
  const auto lines = ctx.server().user_lines();
  ctx.reply.array(lines.size());
  for (const std::string& line : lines) ctx.reply.bulk(line);
  return Status::ok();
}

Status acl_users(Ctx& ctx) {
  const auto lines = ctx.server().user_lines();
  ctx.reply.array(lines.size());
  for (const std::string& line : lines) {
    const std::size_t name = line.find(' ') + 1;
    ctx.reply.bulk(line.substr(name, line.find(' ', name) - name));
  }
  return Status::ok();
}

Status acl_genpass(Ctx& ctx) {
  constexpr std::int64_t kDefaultBits = 256, kMostBits = 4096;
  if (ctx.argc() > 3) return wrong_subcommand_arguments(ctx.command, ctx.args);
  std::optional<std::int64_t> bits = kDefaultBits;
  if (ctx.argc() == 3) bits = parse_integer(ctx.arg(2));
  if (!bits) return reply_error("ERR value is not an integer or out of range");
  if (*bits <= 0 || *bits > kMostBits) {
    return reply_error(
        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096");
  }
  ctx.reply.bulk(ctx.server().random_secret(static_cast<std::size_t>(*bits)));
  return Status::ok();
}

Status acl_load(Ctx& ctx) {
  TRY(ctx.server().load_users(ctx.client_id));
  ctx.reply.ok();
  return Status::ok();
}

Status acl_log(Ctx& ctx) {
  AclLog& log = env_of(ctx).observers->acl_log;
  std::int64_t most = 10;
  if (ctx.argc() > 3) {
    return reply_error("ERR unknown subcommand or wrong number of arguments for '" + std::string(shown(ctx.arg(1))) +
                       "'. Try ACL HELP.");
  }
  if (ctx.argc() == 3 && equal_ignoring_case(ctx.arg(2), "reset")) {
    log.reset();
    ctx.reply.ok();
    return Status::ok();
  }
  if (ctx.argc() == 3) {
    TRY_ASSIGN(count, integer_argument(ctx.arg(2)));
    most = count;
  }
  const auto now_ms = static_cast<std::int64_t>(ctx.server().unix_micros() / 1000);
  const auto entries = log.newest(static_cast<std::size_t>(std::max<std::int64_t>(most, 0)));
  Reply& reply = ctx.reply;
  reply.array(entries.size());
  for (const AclLogEntry& entry : entries) {
    reply.map(10);
    reply.bulk("count");
    reply.integer(static_cast<std::int64_t>(entry.count));
    reply.bulk("reason");
    reply.bulk("auth");
    reply.bulk("context");
    reply.bulk(entry.context);
    reply.bulk("object");
    reply.bulk(entry.object);
    reply.bulk("username");
    reply.bulk(entry.user);
    reply.bulk("age-seconds");
    reply.double_(static_cast<double>(now_ms - entry.updated_ms) / 1000);
    reply.bulk("client-info");
    reply.bulk(entry.client);
    reply.bulk("entry-id");
    reply.integer(static_cast<std::int64_t>(entry.id));
    reply.bulk("timestamp-created");
    reply.integer(entry.created_ms);
    reply.bulk("timestamp-last-updated");
    reply.integer(entry.updated_ms);
  }
  return Status::ok();
}

Status acl_cat(Ctx& ctx) {
  if (ctx.argc() > 3) {
    return reply_error("ERR unknown subcommand or wrong number of arguments for '" + std::string(shown(ctx.arg(1))) +
                       "'. Try ACL HELP.");
  }
  if (ctx.argc() == 2) {
    ctx.reply.array(kCategories.size());
    for (const Bytes category : kCategories) ctx.reply.bulk(category);
    return Status::ok();
  }
  const Bytes asked = ctx.arg(2);
  if (std::none_of(kCategories.begin(), kCategories.end(), [asked](Bytes c) { return equal_ignoring_case(c, asked); })) {
    return reply_error("ERR Unknown category '" + std::string(shown(asked)) + "'");
  }
  const std::uint64_t hole = ctx.reply.begin_array();
  std::size_t count = 0;
  for (const Command& command : env_of(ctx).table->all()) {
    if (!in_category(command, asked)) continue;
    ctx.reply.bulk(command.full_name);
    ++count;
  }
  ctx.reply.end_array(hole, count);
  return Status::ok();
}

constexpr ArgDoc kCatArguments[] = {{.name = "category", .flags = ArgDoc::kOptional}};
constexpr ArgDoc kGenpassArguments[] = {{.name = "bits", .type = ArgDoc::Type::kInteger, .flags = ArgDoc::kOptional}};
constexpr ArgDoc kLogOperation[] = {{.name = "count", .type = ArgDoc::Type::kInteger},
                                    {.name = "reset", .type = ArgDoc::Type::kPureToken, .token = "RESET"}};
constexpr ArgDoc kLogArguments[] = {
    {.name = "operation", .type = ArgDoc::Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kLogOperation}};
constexpr auto kAsk = kNoScript | kLoading | kStale;
constexpr auto kManage = kAdmin | kAsk;
constexpr Bytes kContainer = "acl";

constexpr CommandSpec kSubcommands[] = {
    {.name = "cat",
     .arity = at_least(2),
     .flags = kAsk,
     .run = acl_cat,
     .since = "6.0.0",
     .complexity = "O(1) since the categories and commands are a fixed set.",
     .summary = "Lists the ACL categories, or the commands inside a category.",
     .group = Group::kServer,
     .arguments = kCatArguments,
     .container = kContainer},
    {.name = "genpass",
     .arity = at_least(2),
     .flags = kAsk,
     .run = acl_genpass,
     .since = "6.0.0",
     .complexity = "O(1)",
     .summary = "Generates a pseudorandom, secure password that can be used to identify ACL users.",
     .group = Group::kServer,
     .arguments = kGenpassArguments,
     .container = kContainer},
    {.name = "list",
     .arity = exactly(2),
     .flags = kManage,
     .run = acl_list,
     .since = "6.0.0",
     .complexity = "O(N). Where N is the number of configured users.",
     .summary = "Lists the users as the file of users has them, with passwords as their SHA-256.",
     .group = Group::kServer,
     .container = kContainer},
    {.name = "load",
     .arity = exactly(2),
     .flags = kManage | kOffload | kNeverInline,
     .run = acl_load,
     .since = "6.0.0",
     .complexity = "O(N). Where N is the number of configured users.",
     .summary = "Reads the file of users again, and closes connections of users that have changed.",
     .group = Group::kServer,
     .container = kContainer},
    {.name = "log",
     .arity = at_least(2),
     .flags = kManage,
     .run = acl_log,
     .since = "6.0.0",
     .complexity = "O(N) with N being the number of entries shown.",
     .summary = "Lists the latest authentications that failed.",
     .group = Group::kServer,
     .arguments = kLogArguments,
     .container = kContainer},
    {.name = "users",
     .arity = exactly(2),
     .flags = kManage,
     .run = acl_users,
     .since = "6.0.0",
     .complexity = "O(N). Where N is the number of configured users.",
     .summary = "Lists the names of the users.",
     .group = Group::kServer,
     .container = kContainer},
    {.name = "whoami",
     .arity = exactly(2),
     .flags = kAsk,
     .run = acl_whoami,
     .since = "6.0.0",
     .complexity = "O(1)",
     .summary = "Returns the name of the user of the connection.",
     .group = Group::kServer,
     .container = kContainer},
    {.name = "help",
     .arity = exactly(2),
     .flags = kLoading | kStale,
     .run = container_help,
     .since = "6.0.0",
     .complexity = "O(1)",
     .summary = "Returns helpful text about the different subcommands.",
     .group = Group::kServer,
     .container = kContainer},
};

constexpr CommandSpec kAcl[] = {{.name = kContainer,
                                 .arity = at_least(2),
                                 .since = "6.0.0",
                                 .complexity = "Depends on subcommand.",
                                 .summary = "A container for commands about users.",
                                 .group = Group::kServer,
                                 .subcommands = kSubcommands}};

}  // namespace

std::span<const CommandSpec> acl_commands() { return kAcl; }

}  // namespace ebbtide
