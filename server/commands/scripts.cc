// EVAL, EVALSHA, their read-only forms, and SCRIPT. Dispatch runs a script as a transaction: dispatch/script_calls.h.
#include <memory>
#include <string>
#include <utility>

#include "commands/families.h"
#include "commands/scripts_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "script/interpreter.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

constexpr std::size_t kShaDigits = 40;

/// Runs a script with the keys and arguments of the command.
Status run(Ctx& ctx, const Script& script) {
  const auto keys = parse_integer(ctx.arg(2));
  if (!keys) return reply_error("ERR value is not an integer or out of range");
  if (*keys > static_cast<std::int64_t>(ctx.argc()) - 3) {
    return reply_error("ERR Number of keys can't be greater than number of args");
  }
  if (*keys < 0) return reply_error("ERR Number of keys can't be negative");
  TRY_ASSIGN(flags, flags_of(script.body));
  const bool read_only = flags.no_writes || ctx.command.spec->has(kReadOnly);
  return interpreter().run(ctx, script, 3, static_cast<std::size_t>(*keys), read_only);
}

Status eval(Ctx& ctx) {
  TRY(ctx.work(ctx.arg(1).size()));
  std::string sha = sha1_hex(ctx.arg(1));
  CommandEnv& env = env_of(ctx);
  std::shared_ptr<const Script> script = env.scripts->find(sha);
  if (script != nullptr) return run(ctx, *script);
  TRY(ctx.reserve(ctx.arg(1).size()));
  script = std::make_shared<const Script>(Script{std::move(sha), std::string(ctx.arg(1))});
  TRY(interpreter().check(ctx, *script));
  // If the budget has no room for the script, EVALSHA will not find the script.
  (void)env.scripts->add(script, false, env.memory);
  return run(ctx, *script);
}

Status evalsha(Ctx& ctx) {
  const std::shared_ptr<const Script> script =
      ctx.arg(1).size() == kShaDigits ? env_of(ctx).scripts->find(to_lower(ctx.arg(1))) : nullptr;
  if (script == nullptr) return reply_error("NOSCRIPT No matching script. Please use EVAL.");
  return run(ctx, *script);
}

Status script_load(Ctx& ctx) {
  TRY(ctx.work(ctx.arg(2).size()));
  TRY(ctx.reserve(ctx.arg(2).size()));
  auto script = std::make_shared<const Script>(Script{sha1_hex(ctx.arg(2)), std::string(ctx.arg(2))});
  CommandEnv& env = env_of(ctx);
  if (env.scripts->find(script->sha) == nullptr) TRY(interpreter().check(ctx, *script));
  if (!env.scripts->add(script, true, env.memory)) return Status::out_of_memory("the script did not fit into memory");
  ctx.reply.bulk(script->sha);
  return Status::ok();
}

Status script_exists(Ctx& ctx) {
  TRY(ctx.work(ctx.argc() * 256));
  ctx.reply.array(ctx.argc() - 2);
  for (std::size_t i = 2; i < ctx.argc(); ++i) {
    const Bytes sha = ctx.arg(i);
    const bool exists = sha.size() == kShaDigits && env_of(ctx).scripts->find(to_lower(sha)) != nullptr;
    ctx.reply.integer(exists ? 1 : 0);
  }
  return Status::ok();
}

Status script_flush(Ctx& ctx) {
  const bool known = ctx.argc() == 2 ||
                     (ctx.argc() == 3 && (equal_ignoring_case(ctx.arg(2), "sync") || equal_ignoring_case(ctx.arg(2), "async")));
  if (!known) return reply_error("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
  env_of(ctx).scripts->clear();
  ctx.reply.ok();
  return Status::ok();
}

Status script_kill(Ctx& ctx) {
  if (!env_of(ctx).scripts->kill_all()) return reply_error("NOTBUSY No scripts in execution right now.");
  ctx.reply.ok();
  return Status::ok();
}

Status script_debug(Ctx& ctx) {
  if (equal_ignoring_case(ctx.arg(2), "no")) {
    ctx.reply.ok();
    return Status::ok();
  }
  if (equal_ignoring_case(ctx.arg(2), "yes") || equal_ignoring_case(ctx.arg(2), "sync")) {
    return reply_error("ERR SCRIPT DEBUG is not supported: this server has no script debugger");
  }
  return reply_error("ERR Use SCRIPT DEBUG YES/SYNC/NO");
}

constexpr auto kGroup = Group::kScripting;
constexpr auto kEvalFlags = kNoScript | kStale | kMovableKeys | kRunsScript;
constexpr std::string_view kAcl = "@scripting";

constexpr KeySpec kWriteKeys = {.first = 3,
                                .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate,
                                .count_at = 2,
                                .notes = "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"};
constexpr KeySpec kReadKeys = {.first = 3,
                               .access = KeySpec::kRo | KeySpec::kAccess,
                               .count_at = 2,
                               .notes = "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS"};

constexpr CommandSpec kScript[] = {
    {.name = "debug",
     .arity = exactly(3),
     .flags = kNoScript,
     .run = script_debug,
     .since = "3.2.0",
     .complexity = "O(1)",
     .summary = "Is refused: there is no script debugger.",
     .group = kGroup,
     .arguments = kScriptDebugArguments,
     .container = "script",
     .extra_acl = kAcl},
    {.name = "exists",
     .arity = at_least(3),
     .flags = kNoScript | kMayLeave,
     .run = script_exists,
     .since = "2.6.0",
     .complexity = "O(N) where N is the number of scripts.",
     .summary = "Returns whether scripts are in the cache.",
     .group = kGroup,
     .arguments = kScriptExistsArguments,
     .container = "script",
     .extra_acl = kAcl},
    {.name = "flush",
     .arity = at_least(2),
     .flags = kNoScript,
     .run = script_flush,
     .since = "2.6.0",
     .complexity = "O(N) where N is the number of scripts in the cache.",
     .summary = "Removes all scripts from the cache.",
     .group = kGroup,
     .arguments = kScriptFlushArguments,
     .container = "script",
     .extra_acl = kAcl},
    {.name = "help",
     .arity = exactly(2),
     .flags = kLoading | kStale,
     .run = container_help,
     .since = "5.0.0",
     .complexity = "O(1)",
     .summary = "Returns a text about the subcommands.",
     .group = kGroup,
     .container = "script",
     .extra_acl = kAcl},
    {.name = "kill",
     .arity = exactly(2),
     .flags = kNoScript | kAllowBusy,
     .run = script_kill,
     .since = "2.6.0",
     .complexity = "O(N) where N is the number of running scripts.",
     .summary = "Ends the scripts that run for long.",
     .group = kGroup,
     .container = "script",
     .extra_acl = kAcl},
    {.name = "load",
     .arity = exactly(3),
     .flags = kNoScript | kStale | kMayLeave,
     .run = script_load,
     .since = "2.6.0",
     .complexity = "O(N) where N is the length of the script.",
     .summary = "Adds a script to the cache, and returns its SHA1.",
     .group = kGroup,
     .arguments = kScriptLoadArguments,
     .container = "script",
     .extra_acl = kAcl},
};

constexpr CommandSpec kScripts[] = {
    {.name = "eval",
     .arity = at_least(3),
     .keys = kWriteKeys,
     .flags = kEvalFlags | kMayReplicate,
     .run = eval,
     .since = "2.6.0",
     .complexity = "Depends on the script.",
     .summary = "Runs a Lua script.",
     .group = kGroup,
     .arguments = kEvalArguments,
     .extra_acl = kAcl},
    {.name = "evalsha",
     .arity = at_least(3),
     .keys = kWriteKeys,
     .flags = kEvalFlags | kMayReplicate,
     .run = evalsha,
     .since = "2.6.0",
     .complexity = "Depends on the script.",
     .summary = "Runs a Lua script of the cache by its SHA1.",
     .group = kGroup,
     .arguments = kEvalshaArguments,
     .extra_acl = kAcl},
    {.name = "eval_ro",
     .arity = at_least(3),
     .keys = kReadKeys,
     .flags = kEvalFlags | kReadOnly,
     .run = eval,
     .since = "7.0.0",
     .complexity = "Depends on the script.",
     .summary = "Runs a Lua script that writes nothing.",
     .group = kGroup,
     .arguments = kEvalArguments,
     .extra_acl = kAcl},
    {.name = "evalsha_ro",
     .arity = at_least(3),
     .keys = kReadKeys,
     .flags = kEvalFlags | kReadOnly,
     .run = evalsha,
     .since = "7.0.0",
     .complexity = "Depends on the script.",
     .summary = "Runs a Lua script of the cache that writes nothing, by its SHA1.",
     .group = kGroup,
     .arguments = kEvalshaArguments,
     .extra_acl = kAcl},
    {.name = "script",
     .arity = at_least(2),
     .since = "2.6.0",
     .complexity = "Depends on the subcommand.",
     .summary = "A container for commands about scripts.",
     .group = kGroup,
     .subcommands = kScript},
};

}  // namespace

std::span<const CommandSpec> script_commands() { return kScripts; }

}  // namespace ebbtide
