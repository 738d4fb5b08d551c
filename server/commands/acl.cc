// ACL: users and their rights (acl/users.h), and the log of failed authentications and denied commands.
#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "acl/catalog.h"
#include "acl/users.h"
#include "commands/families.h"
#include "commands/help_spec.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/permissions.h"
#include "dispatch/table.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

Status acl_whoami(Ctx& ctx) {
  ctx.reply.bulk(user_of(ctx.session));
  return Status::ok();
}

Status acl_list(Ctx& ctx) {
  const auto users = ctx.server().users();
  TRY(ctx.work(users->memory_bytes()));
  ctx.reply.array(users->size());
  return users->for_each([&](const User& user) -> Status {
    TRY(ctx.work(0));  // stops if the client has disconnected
    ctx.reply.bulk(Users::line_of(user));
    return ctx.reserve_reply();
  });
}

Status acl_users(Ctx& ctx) {
  const auto users = ctx.server().users();
  constexpr std::uint64_t kNameWork = 64;
  TRY(ctx.work(kNameWork * users->size()));
  ctx.reply.array(users->size());
  return users->for_each([&](const User& user) -> Status {
    ctx.reply.bulk(user.name);
    return ctx.reserve_reply();
  });
}

Status acl_setuser(Ctx& ctx) {
  TRY(ctx.server().set_user(ctx.arg(2), ctx.args.list.subspan(3), ctx.client_id));
  ctx.reply.ok();
  return Status::ok();
}

Status acl_deluser(Ctx& ctx) {
  TRY_ASSIGN(removed, ctx.server().delete_users(ctx.args.list.subspan(2), ctx.client_id));
  ctx.reply.integer(static_cast<std::int64_t>(removed));
  return Status::ok();
}

void reply_texts(Reply& reply, const AclSelector& selector) {
  reply.bulk("commands");
  reply.bulk(selector.commands_text());
  reply.bulk("keys");
  reply.bulk(selector.keys_text());
  reply.bulk("channels");
  reply.bulk(selector.channels_text());
}

Status acl_getuser(Ctx& ctx) {
  Reply& reply = ctx.reply;
  const auto user = ctx.server().users()->find(ctx.arg(2));
  if (user == nullptr) {
    reply.null();
    return Status::ok();
  }
  TRY(ctx.work(user->memory_bytes()));
  TRY(ctx.reserve(2 * user->memory_bytes()));  // for the user's texts and for the reply
  reply.map(6);
  reply.bulk("flags");
  reply.set(user->any_password ? 3 : 2);
  reply.bulk(user->on ? "on" : "off");
  if (user->any_password) reply.bulk("nopass");
  reply.bulk(user->skips_sanitizing ? "skip-sanitize-payload" : "sanitize-payload");
  reply.bulk("passwords");
  reply.array(user->passwords.size());
  for (const Sha256& hash : user->passwords) reply.bulk(shown_hash(hash));
  reply_texts(reply, user->selectors[0]);
  reply.bulk("selectors");
  reply.array(user->selectors.size() - 1);
  for (std::size_t i = 1; i < user->selectors.size(); ++i) {
    reply.map(3);
    reply_texts(reply, user->selectors[i]);
  }
  return Status::ok();
}

Status acl_dryrun(Ctx& ctx) {
  const auto user = ctx.server().users()->find(ctx.arg(2));
  if (user == nullptr) return reply_error("ERR User '" + std::string(shown(ctx.arg(2))) + "' not found");
  const std::span<const Bytes> arguments = ctx.args.list.subspan(3);
  const CommandTable& table = *env_of(ctx).table;
  const Command* command = table.find(arguments[0]);
  if (command != nullptr && !command->spec->subcommands.empty() && arguments.size() > 1) {
    command = table.find_subcommand(*command, arguments[1]);
  }
  if (command == nullptr) return reply_error("ERR Command '" + std::string(shown(arguments[0])) + "' not found");
  if (!command->spec->arity_ok(arguments.size())) {
    return reply_error("ERR wrong number of arguments for '" + command->full_name + "' command");
  }
  TRY(ctx.work(sizeof(AclRequest::Key) * arguments.size()));
  TRY(ctx.go_on_for_long());
  AclBudget budget = check_budget(ctx);
  const std::optional<AclVerdict> verdict = check_permission(*user, *command, arguments, budget);
  const std::optional<Bytes> denied_option = verdict ? denied_pattern_option(*user, *command, arguments, budget) : std::nullopt;
  TRY(note_check(ctx, budget, denied_option.has_value()));
  if (verdict->allowed() && denied_option->empty()) {
    ctx.reply.ok();
  } else if (verdict->allowed()) {
    ctx.reply.bulk(denied_pattern_text(*denied_option));
  } else {
    ctx.reply.bulk(denial_text(*verdict, user->name, *command, arguments, true));
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

Status acl_save(Ctx& ctx) {
  TRY(ctx.server().save_users());
  ctx.reply.ok();
  return Status::ok();
}

Bytes reason_of(const AclLogEntry& entry) {
  switch (entry.reason) {
    case AclDenial::kNone:
      break;
    case AclDenial::kCommand:
      return "command";
    case AclDenial::kKey:
      return "key";
    case AclDenial::kChannel:
      return "channel";
  }
  return "auth";
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
  most = std::max<std::int64_t>(most, 0);
  // Work of an entry without its texts, and its memory with them.
  constexpr std::uint64_t kEntryWork = 512, kEntryBytes = 8 << 10;
  const std::uint64_t shown = std::min<std::uint64_t>(static_cast<std::uint64_t>(most), log.size());
  const std::uint64_t bytes = std::min<std::uint64_t>(shown * kEntryBytes, log.memory_bytes());
  TRY(ctx.work(shown * kEntryWork + bytes));
  TRY(ctx.reserve(bytes));
  const auto now_ms = static_cast<std::int64_t>(ctx.server().unix_micros() / 1000);
  const auto entries = log.newest(static_cast<std::size_t>(most));
  Reply& reply = ctx.reply;
  reply.array(entries.size());
  for (const AclLogEntry& entry : entries) {
    TRY(ctx.reserve_reply());
    reply.map(10);
    reply.bulk("count");
    reply.integer(static_cast<std::int64_t>(entry.count));
    reply.bulk("reason");
    reply.bulk(reason_of(entry));
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
    ctx.reply.array(kAclCategories.size());
    for (const Bytes category : kAclCategories) ctx.reply.bulk(category);
    return Status::ok();
  }
  const Bytes asked = ctx.arg(2);
  if (!acl_category(asked)) {
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
constexpr ArgDoc kUserArguments[] = {{.name = "username"}};
constexpr ArgDoc kUsersArguments[] = {{.name = "username", .flags = ArgDoc::kMultiple}};
constexpr ArgDoc kSetuserArguments[] = {{.name = "username"},
                                        {.name = "rule", .flags = ArgDoc::kOptional | ArgDoc::kMultiple, .since = "6.0.0"}};
constexpr ArgDoc kDryrunArguments[] = {
    {.name = "username"}, {.name = "command"}, {.name = "arg", .flags = ArgDoc::kOptional | ArgDoc::kMultiple}};
constexpr auto kAsk = kNoScript | kLoading | kStale;
constexpr auto kManage = kAdmin | kAsk;
constexpr auto kChange = kManage | kOffload | kNeverInline;
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
    {.name = "deluser",
     .arity = at_least(3),
     .flags = kChange,
     .run = acl_deluser,
     .since = "6.0.0",
     .complexity = "O(1) amortized time considering the typical user.",
     .summary = "Deletes ACL users, and terminates their connections.",
     .group = Group::kServer,
     .arguments = kUsersArguments,
     .container = kContainer},
    {.name = "dryrun",
     .arity = at_least(4),
     .flags = kManage | kMayLeave,
     .run = acl_dryrun,
     .since = "7.0.0",
     .complexity = "O(1).",
     .summary = "Simulates the execution of a command by a user, without executing the command.",
     .group = Group::kServer,
     .arguments = kDryrunArguments,
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
    {.name = "getuser",
     .arity = exactly(3),
     .flags = kManage | kMayLeave,
     .run = acl_getuser,
     .since = "6.0.0",
     .complexity = "O(N). Where N is the number of password, command and pattern rules that the user has.",
     .summary = "Lists the ACL rules of a user.",
     .group = Group::kServer,
     .arguments = kUserArguments,
     .container = kContainer},
    {.name = "list",
     .arity = exactly(2),
     .flags = kManage | kMayLeave,
     .run = acl_list,
     .since = "6.0.0",
     .complexity = "O(N). Where N is the number of configured users.",
     .summary = "Lists the users in the form of the file of users, with passwords as their SHA-256.",
     .group = Group::kServer,
     .container = kContainer},
    {.name = "load",
     .arity = exactly(2),
     .flags = kChange,
     .run = acl_load,
     .since = "6.0.0",
     .complexity = "O(N). Where N is the number of configured users.",
     .summary = "Reads the file of users again, and closes connections of users that have changed.",
     .group = Group::kServer,
     .container = kContainer},
    {.name = "log",
     .arity = at_least(2),
     .flags = kManage | kMayLeave,
     .run = acl_log,
     .since = "6.0.0",
     .complexity = "O(N) with N being the number of entries shown.",
     .summary = "Lists the latest authentications that failed and commands that were denied.",
     .group = Group::kServer,
     .arguments = kLogArguments,
     .container = kContainer},
    {.name = "save",
     .arity = exactly(2),
     .flags = kChange,
     .run = acl_save,
     .since = "6.0.0",
     .complexity = "O(N). Where N is the number of configured users.",
     .summary = "Saves the effective ACL rules in the configured ACL file.",
     .group = Group::kServer,
     .container = kContainer},
    {.name = "setuser",
     .arity = at_least(3),
     .flags = kChange,
     .run = acl_setuser,
     .since = "6.0.0",
     .complexity = "O(N). Where N is the number of rules provided.",
     .summary = "Creates and modifies an ACL user and its rules.",
     .group = Group::kServer,
     .arguments = kSetuserArguments,
     .container = kContainer},
    {.name = "users",
     .arity = exactly(2),
     .flags = kManage | kMayLeave,
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
    help_of(kContainer, "6.0.0", Group::kServer),
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
