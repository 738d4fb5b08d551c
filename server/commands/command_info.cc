// COMMAND and its subcommands: the table of commands, printed as Redis prints it.
#include <algorithm>
#include <string>
#include <vector>

#include "commands/families.h"
#include "commands/help_spec.h"
#include "commands/server_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/command_keys.h"
#include "dispatch/context.h"
#include "dispatch/table.h"
#include "store/glob.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

struct FlagName {
  std::uint32_t flag;
  Bytes name;
};

constexpr FlagName kFlagNames[] = {
    {kWrite, "write"},
    {kReadOnly, "readonly"},
    {kDenyOom, "denyoom"},
    {kAdmin, "admin"},
    {kPubSub, "pubsub"},
    {kNoScript, "noscript"},
    {kBlocking, "blocking"},
    {kLoading, "loading"},
    {kStale, "stale"},
    {kRunsScript, "skip_monitor"},
    {kSkipSlowlog, "skip_slowlog"},
    {kFast, "fast"},
    {kNoAuth, "no_auth"},
    {kSentinel, "only_sentinel"},
    {kNoAsyncLoading, "no_async_loading"},
    {kNoMulti, "no_multi"},
    {kRunsScript, "no_mandatory_keys"},
    {kMovableKeys, "movablekeys"},
    {kAllowBusy, "allow_busy"},
};

constexpr FlagName kAccessNames[] = {
    {KeySpec::kRw, "RW"},         {KeySpec::kRo, "RO"},         {KeySpec::kOw, "OW"},
    {KeySpec::kRm, "RM"},         {KeySpec::kAccess, "access"}, {KeySpec::kUpdate, "update"},
    {KeySpec::kInsert, "insert"}, {KeySpec::kDelete, "delete"}, {KeySpec::kVariableFlags, "variable_flags"},
};

void reply_flags(Reply& reply, std::uint32_t flags, std::span<const FlagName> names) {
  const auto count =
      std::count_if(names.begin(), names.end(), [flags](const FlagName& name) { return (flags & name.flag) != 0; });
  reply.set(static_cast<std::size_t>(count));
  for (const FlagName& name : names) {
    if ((flags & name.flag) != 0) reply.simple(name.name);
  }
}

/// Returns the position of the last key relative to the first: 0 if they are the same key; negative if it counts from the end.
int relative_last(const KeySpec& keys) { return keys.last == 0 ? 0 : keys.last < 0 ? keys.last : keys.last - keys.first; }

/// Returns the keys at fixed positions, without those that a key count precedes.
KeySpec fixed_part(const KeySpec& keys) {
  if (keys.count_at == 0) return keys;
  return keys.first < keys.count_at ? KeySpec{.first = keys.first, .last = keys.first} : KeySpec{.step = 0};
}

void reply_key_count(Reply& reply) {
  reply.map(2);
  reply.bulk("type");
  reply.bulk("keynum");
  reply.bulk("spec");
  reply.map(3);
  reply.bulk("keynumidx");
  reply.integer(0);
  reply.bulk("firstkey");
  reply.integer(1);
  reply.bulk("keystep");
  reply.integer(1);
}

void reply_unknown(Reply& reply, Bytes what) {
  reply.bulk(what);
  reply.map(2);
  reply.bulk("type");
  reply.bulk("unknown");
  reply.bulk("spec");
  reply.map(0);
}

void reply_key_spec(Reply& reply, const KeySpec& keys) {
  reply.map(keys.notes.empty() ? 3 : 4);
  if (!keys.notes.empty()) {
    reply.bulk("notes");
    reply.bulk(keys.notes);
  }
  reply.bulk("flags");
  reply_flags(reply, keys.access, kAccessNames);
  if (keys.first == 0) {
    reply_unknown(reply, "begin_search");
    return reply_unknown(reply, "find_keys");
  }
  reply.bulk("begin_search");
  reply.map(2);
  reply.bulk("type");
  reply.bulk(keys.keyword.empty() ? "index" : "keyword");
  reply.bulk("spec");
  if (keys.keyword.empty()) {
    reply.map(1);
    reply.bulk("index");
    reply.integer(keys.count_at == 0 ? keys.first : keys.count_at);
  } else {
    reply.map(2);
    reply.bulk("keyword");
    reply.bulk(keys.keyword);
    reply.bulk("startfrom");
    reply.integer(keys.first);
  }
  reply.bulk("find_keys");
  if (keys.count_at != 0) return reply_key_count(reply);
  reply.map(2);
  reply.bulk("type");
  reply.bulk("range");
  reply.bulk("spec");
  reply.map(3);
  reply.bulk("lastkey");
  reply.integer(relative_last(keys));
  reply.bulk("keystep");
  reply.integer(keys.step);
  reply.bulk("limit");
  reply.integer(0);
}

void reply_key_specs(Reply& reply, const CommandSpec& spec) {
  if (spec.keys.first == 0) return reply.set(0);
  const std::span<const KeySpec> parts = spec.key_specs.empty() ? std::span(&spec.keys, 1) : spec.key_specs;
  reply.set(parts.size());
  for (const KeySpec& part : parts) reply_key_spec(reply, part);
}

void reply_info(Ctx& ctx, const Command& command) {
  const CommandSpec& spec = *command.spec;
  Reply& reply = ctx.reply;
  reply.array(10);
  reply.bulk(command.full_name);
  reply.integer(spec.arity);
  reply_flags(reply, spec.flags, kFlagNames);
  const KeySpec keys = fixed_part(spec.keys);
  reply.integer(keys.first);
  reply.integer(keys.first == 0 ? 0 : keys.last == 0 ? keys.first : keys.last);
  reply.integer(keys.first == 0 ? 0 : keys.step);
  const auto categories = acl_categories(spec);
  reply.set(categories.size());
  for (const Bytes category : categories) reply.simple(category);
  reply.set(0);  // command tips: none
  reply_key_specs(reply, spec);
  spec.subcommands.empty() ? reply.set(0) : reply.array(spec.subcommands.size());  // an empty set or an array, as in Redis
  for (std::size_t i = 0; i < spec.subcommands.size(); ++i)
    reply_info(ctx, env_of(ctx).table->all()[command.first_subcommand + i]);
}

/// The approximate size of a command's description in a reply, in bytes.
constexpr std::uint64_t kDescriptionBytes = 1024;

Status command_all(Ctx& ctx) {
  const auto& commands = env_of(ctx).table->top_level();
  TRY(ctx.work(commands.size() * kDescriptionBytes));
  ctx.reply.array(commands.size());
  for (const Command* command : commands) reply_info(ctx, *command);
  return Status::ok();
}

Status command_info(Ctx& ctx) {
  if (ctx.argc() == 2) return command_all(ctx);
  TRY(ctx.work(ctx.argc() * kDescriptionBytes));
  ctx.reply.array(ctx.argc() - 2);
  for (std::size_t i = 2; i < ctx.argc(); ++i) {
    const Command* command = env_of(ctx).table->find_full(ctx.arg(i));
    command == nullptr ? ctx.reply.null_array() : reply_info(ctx, *command);
  }
  return Status::ok();
}

Status command_count(Ctx& ctx) {
  ctx.reply.integer(static_cast<std::int64_t>(env_of(ctx).table->top_level().size()));
  return Status::ok();
}

constexpr Bytes type_name(ArgDoc::Type type) {
  switch (type) {
    case ArgDoc::Type::kString:
      return "string";
    case ArgDoc::Type::kInteger:
      return "integer";
    case ArgDoc::Type::kDouble:
      return "double";
    case ArgDoc::Type::kKey:
      return "key";
    case ArgDoc::Type::kPattern:
      return "pattern";
    case ArgDoc::Type::kUnixTime:
      return "unix-time";
    case ArgDoc::Type::kPureToken:
      return "pure-token";
    case ArgDoc::Type::kOneOf:
      return "oneof";
    case ArgDoc::Type::kBlock:
      return "block";
  }
  return "";
}

void reply_text(Reply& reply, Bytes name, Bytes value) {
  reply.bulk(name);
  reply.bulk(value);
}

void reply_arguments(Reply& reply, std::span<const ArgDoc> arguments) {
  static constexpr FlagName kArgumentFlags[] = {
      {ArgDoc::kOptional, "optional"}, {ArgDoc::kMultiple, "multiple"}, {ArgDoc::kMultipleToken, "multiple_token"}};
  reply.array(arguments.size());
  for (const ArgDoc& argument : arguments) {
    const bool container = !argument.arguments.empty();
    const bool has_keys = argument.type == ArgDoc::Type::kKey || argument.key_spec != 0;
    reply.map(2 + (container ? 0 : 1) + (has_keys ? 1 : 0) + (argument.token.empty() ? 0 : 1) + (argument.since.empty() ? 0 : 1) +
              (argument.flags == 0 ? 0 : 1) + (container ? 1 : 0));
    reply_text(reply, "name", argument.name);
    reply_text(reply, "type", type_name(argument.type));
    if (!container) reply_text(reply, "display_text", argument.display.empty() ? argument.name : argument.display);
    if (has_keys) {
      reply.bulk("key_spec_index");
      reply.integer(argument.key_spec);
    }
    if (!argument.token.empty()) reply_text(reply, "token", argument.token);
    if (!argument.since.empty()) reply_text(reply, "since", argument.since);
    if (argument.flags != 0) {
      reply.bulk("flags");
      reply_flags(reply, argument.flags, kArgumentFlags);
    }
    if (container) {
      reply.bulk("arguments");
      reply_arguments(reply, argument.arguments);
    }
  }
}

void reply_docs(Ctx& ctx, const Command& command) {
  const CommandSpec& spec = *command.spec;
  Reply& reply = ctx.reply;
  reply.map(4 + (spec.arguments.empty() ? 0 : 1) + (spec.subcommands.empty() ? 0 : 1));
  reply_text(reply, "summary", spec.summary);
  reply_text(reply, "since", spec.since);
  reply_text(reply, "group", group_name(spec.group));
  reply_text(reply, "complexity", spec.complexity);
  if (!spec.arguments.empty()) {
    reply.bulk("arguments");
    reply_arguments(reply, spec.arguments);
  }
  if (!spec.subcommands.empty()) {
    reply.bulk("subcommands");
    reply.map(spec.subcommands.size());
    for (std::size_t i = 0; i < spec.subcommands.size(); ++i) {
      const Command& sub = env_of(ctx).table->all()[command.first_subcommand + i];
      reply.bulk(sub.full_name);
      reply_docs(ctx, sub);
    }
  }
}

Status command_docs(Ctx& ctx) {
  TRY(ctx.work(ctx.argc() * kDescriptionBytes));
  std::vector<const Command*> commands;
  if (ctx.argc() == 2) commands = env_of(ctx).table->top_level();
  for (std::size_t i = 2; i < ctx.argc(); ++i) {
    const Command* command = env_of(ctx).table->find_full(ctx.arg(i));
    if (command != nullptr) commands.push_back(command);
  }
  ctx.reply.map(commands.size());
  for (const Command* command : commands) {
    ctx.reply.bulk(command->full_name);
    reply_docs(ctx, *command);
  }
  return Status::ok();
}

/// A filter of COMMAND LIST FILTERBY: returns true for the commands that it lists.
using Filter = bool (*)(const Command& command, Bytes argument);

Status command_list(Ctx& ctx) {
  Filter filter = [](const Command&, Bytes) { return true; };
  Bytes argument;
  ArgCursor cursor(ctx.args, 2);
  if (!cursor.done()) {
    if (cursor.left() != 3 || !cursor.take_word("FILTERBY")) return syntax_error();
    if (cursor.take_option("MODULE", &argument)) {
      filter = [](const Command&, Bytes) { return false; };
    } else if (cursor.take_option("ACLCAT", &argument)) {
      filter = in_category;
    } else if (cursor.take_option("PATTERN", &argument)) {
      TRY(check_name_pattern(argument));
      TRY(ctx.work(argument.size() * env_of(ctx).table->all().size()));
      filter = [](const Command& command, Bytes pattern) { return glob_match(pattern, command.full_name, true); };
    } else {
      return syntax_error();
    }
  }
  const std::uint64_t hole = ctx.reply.begin_array();
  std::size_t count = 0;
  for (const Command& command : env_of(ctx).table->all()) {
    if (!filter(command, argument)) continue;
    ctx.reply.bulk(command.full_name);
    ++count;
  }
  ctx.reply.end_array(hole, count);
  return Status::ok();
}

/// Returns the positions of a command's keys among its own arguments. In COMMAND GETKEYS, that command's name is argument 2.
Result<std::vector<std::size_t>> key_positions(const Ctx& ctx, const Command** found) {
  const Command* command = env_of(ctx).table->find(ctx.arg(2));
  if (command != nullptr && !command->spec->subcommands.empty() && ctx.argc() > 3) {
    command = env_of(ctx).table->find_subcommand(*command, ctx.arg(3));
  }
  if (command == nullptr) return reply_error("ERR Invalid command specified");
  if (command->spec->keys.first == 0) return reply_error("ERR The command has no key arguments");
  const std::size_t argc = ctx.argc() - 2;
  if (!command->spec->arity_ok(argc)) return reply_error("ERR Invalid number of arguments specified for command");
  const auto arguments = ctx.args.list.subspan(2);
  const KeySpec& keys = command->spec->keys;
  const auto invalid = [] { return reply_error("ERR Invalid arguments specified for command"); };
  if (keys.count_at != 0 && counted_keys(keys, arguments) == 0) return invalid();
  for (const KeySpec& part : command->spec->key_specs) {
    if (part.count_at == 0 && part.last_of(static_cast<int>(argc)) < part.first) return invalid();
  }
  std::vector<std::size_t> positions;
  const int last = last_key(keys, arguments);
  for (int i = keys.first; i <= last; i = next_key(keys, i, last)) positions.push_back(static_cast<std::size_t>(i) + 2);
  *found = command;
  return positions;
}

/// Work (Ctx::work), in bytes, for each argument in which keys are searched.
constexpr std::uint64_t kArgumentWork = 64;

Status command_getkeys(Ctx& ctx) {
  TRY(ctx.work(kArgumentWork * ctx.argc()));
  const Command* command = nullptr;
  TRY_ASSIGN(positions, key_positions(ctx, &command));
  ctx.reply.array(positions.size());
  for (const std::size_t i : positions) {
    ctx.reply.bulk(ctx.arg(i));
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

Status command_getkeysandflags(Ctx& ctx) {
  TRY(ctx.work(kArgumentWork * ctx.argc()));
  const Command* command = nullptr;
  TRY_ASSIGN(positions, key_positions(ctx, &command));
  ctx.reply.array(positions.size());
  for (const std::size_t i : positions) {
    ctx.reply.array(2);
    ctx.reply.bulk(ctx.arg(i));
    reply_flags(ctx.reply, key_access(*command->spec, ctx.args.list.subspan(2), static_cast<int>(i) - 2), kAccessNames);
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

constexpr auto kFlags = kLoading | kStale;
constexpr Bytes kCommand = "command";
constexpr Bytes kAcl = "@connection";

constexpr CommandSpec kSubcommands[] = {
    {.name = "count",
     .arity = exactly(2),
     .flags = kFlags,
     .run = command_count,
     .since = "2.8.13",
     .complexity = "O(1)",
     .summary = "Returns a count of commands.",
     .group = Group::kServer,
     .container = kCommand,
     .extra_acl = kAcl},
    {.name = "info",
     .arity = at_least(2),
     .flags = kFlags | kMayLeave,
     .run = command_info,
     .since = "2.8.13",
     .complexity = "O(N) where N is the number of commands to look up",
     .summary = "Returns information about one, multiple or all commands.",
     .group = Group::kServer,
     .arguments = kCommandInfoArguments,
     .container = kCommand,
     .extra_acl = kAcl},
    {.name = "docs",
     .arity = at_least(2),
     .flags = kFlags | kMayLeave,
     .run = command_docs,
     .since = "7.0.0",
     .complexity = "O(N) where N is the number of commands to look up",
     .summary = "Returns documentary information about one, multiple or all commands.",
     .group = Group::kServer,
     .arguments = kCommandDocsArguments,
     .container = kCommand,
     .extra_acl = kAcl},
    {.name = "list",
     .arity = at_least(2),
     .flags = kFlags | kMayLeave,
     .run = command_list,
     .since = "7.0.0",
     .complexity = "O(N) where N is the total number of commands",
     .summary = "Returns a list of command names.",
     .group = Group::kServer,
     .arguments = kCommandListArguments,
     .container = kCommand,
     .extra_acl = kAcl},
    {.name = "getkeys",
     .arity = at_least(3),
     .flags = kFlags | kMayLeave,
     .run = command_getkeys,
     .since = "2.8.13",
     .complexity = "O(N) where N is the number of arguments to the command",
     .summary = "Extracts the key names from an arbitrary command.",
     .group = Group::kServer,
     .container = kCommand,
     .extra_acl = kAcl},
    {.name = "getkeysandflags",
     .arity = at_least(3),
     .flags = kFlags | kMayLeave,
     .run = command_getkeysandflags,
     .since = "7.0.0",
     .complexity = "O(N) where N is the number of arguments to the command",
     .summary = "Extracts the key names and access flags for an arbitrary command.",
     .group = Group::kServer,
     .container = kCommand,
     .extra_acl = kAcl},
    help_of(kCommand, "5.0.0", Group::kServer, kAcl),
};

constexpr CommandSpec kCommands[] = {
    {.name = kCommand,
     .arity = at_least(1),
     .flags = kFlags | kMayLeave,
     .run = command_all,
     .since = "2.8.13",
     .complexity = "O(N) where N is the total number of commands",
     .summary = "Returns detailed information about all commands.",
     .group = Group::kServer,
     .subcommands = kSubcommands,
     .extra_acl = kAcl},
};

}  // namespace

std::span<const CommandSpec> command_commands() { return kCommands; }

}  // namespace ebbtide
