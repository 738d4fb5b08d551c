// Commands about the whole server: CONFIG, TIME, SHUTDOWN, backups.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "commands/families.h"
#include "commands/help_spec.h"
#include "commands/server_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/offload.h"
#include "dispatch/server_stats.h"
#include "dispatch/table.h"

namespace ebbtide {
namespace {

Status config_get(Ctx& ctx) {
  constexpr std::uint64_t kPatternBytes = 4096;  // total bytes of all parameter names, with which each pattern is matched
  constexpr std::uint64_t kKeys = 128;           // about as many parameters exist
  std::vector<Bytes> patterns;
  std::uint64_t bytes = 0;
  for (std::size_t i = 2; i < ctx.argc(); ++i) {
    TRY(check_name_pattern(ctx.arg(i)));
    patterns.push_back(ctx.arg(i));
    bytes += ctx.arg(i).size();
  }
  TRY(ctx.work(ctx.argc() * kPatternBytes + bytes * kKeys));
  std::vector<std::pair<std::string, std::string>> items;
  ctx.server().config_get(patterns, &items);
  ctx.reply.map(items.size());
  for (const auto& [name, value] : items) {
    ctx.reply.bulk(name);
    ctx.reply.bulk(value);
  }
  return Status::ok();
}

Status config_set(Ctx& ctx) {
  if (ctx.argc() % 2 == 1) return syntax_error();
  std::vector<std::pair<Bytes, Bytes>> items;
  for (std::size_t i = 2; i < ctx.argc(); i += 2) items.emplace_back(ctx.arg(i), ctx.arg(i + 1));
  TRY(ctx.server().config_set(items));
  ctx.reply.ok();
  return Status::ok();
}

Status config_rewrite(Ctx& ctx) {
  TRY(ctx.server().config_rewrite());
  ctx.reply.ok();
  return Status::ok();
}

Status config_resetstat(Ctx& ctx) {
  env_of(ctx).stats->reset();
  ctx.server().reset_stats();
  ctx.reply.ok();
  return Status::ok();
}

/// Replies with seconds and microseconds of one clock reading. As in Redis 7.2, time stands still inside EXEC and in scripts.
Status time(Ctx& ctx) {
  constexpr std::uint64_t kMicros = 1'000'000;
  const std::uint64_t now = ctx.in_exec() ? ctx.exec->unix_micros : ctx.server().unix_micros();
  ctx.reply.array(2);
  ctx.reply.bulk(std::to_string(now / kMicros));
  ctx.reply.bulk(std::to_string(now % kMicros));
  return Status::ok();
}

constexpr const char* kSaving = "ERR Background save already in progress";

/// A backup by BGSAVE. No client waits for it.
class BackgroundSave final : public OffloadWork {
 public:
  explicit BackgroundSave(ServerControl& control) : control_(control) {}
  void run() override { (void)control_.save(); }

 private:
  ServerControl& control_;
};

/// Replies "master": the server has no replicas.
Status role(Ctx& ctx) {
  ctx.reply.array(3);
  ctx.reply.bulk("master");
  ctx.reply.integer(0);
  ctx.reply.array(0);
  return Status::ok();
}

Status save(Ctx& ctx) {
  if (!ctx.server().begin_save()) return reply_error(kSaving);
  TRY(ctx.server().save());
  ctx.reply.ok();
  return Status::ok();
}

Status bgsave(Ctx& ctx) {
  // In Redis, SCHEDULE waits for a rewrite of the append-only file; this server has none.
  if (ctx.argc() > 2 || (ctx.argc() == 2 && !ArgCursor(ctx.args, 1).take_word("SCHEDULE"))) return syntax_error();
  const auto start = [&env = env_of(ctx)] {
    if (!env.control->begin_save()) return false;
    env.offload->submit(OffloadClass::kLong, std::make_shared<BackgroundSave>(*env.control));
    return true;
  };
  if (!ctx.in_exec()) {
    if (!start()) return reply_error(kSaving);
  } else {
    // Inside EXEC the attempt may have to be repeated, and the backup must include the transaction's writes. So it starts after
    // the commit.
    if (ctx.server().save_state().running_since_micros != 0) return reply_error(kSaving);
    ctx.after_run([start](const Origin&) { (void)start(); });
  }
  ctx.reply.simple("Background saving started");
  return Status::ok();
}

Status lastsave(Ctx& ctx) {
  ctx.reply.integer(static_cast<std::int64_t>(ctx.server().save_state().last_unix_seconds));
  return Status::ok();
}

Status shutdown(Ctx& ctx) {
  ShutdownRequest request;
  bool abort = false;
  for (ArgCursor cursor(ctx.args, 1); !cursor.done();) {
    if (cursor.take_word("NOSAVE")) {
      request.no_save = true;
    } else if (cursor.take_word("SAVE")) {
      request.save = true;
    } else if (cursor.take_word("NOW")) {
      request.now = true;
    } else if (cursor.take_word("FORCE")) {
      request.force = true;
    } else if (cursor.take_word("ABORT")) {
      abort = true;
    } else {
      return syntax_error();
    }
  }
  const bool other = request.save || request.no_save || request.now || request.force;
  if ((abort && other) || (request.save && request.no_save)) return syntax_error();
  if (!abort) return ctx.server().shutdown(request);
  if (!ctx.server().abort_shutdown().is_ok()) return reply_error("ERR No shutdown in progress.");
  ctx.reply.ok();
  return Status::ok();
}

constexpr auto kConfigFlags = kAdmin | kNoScript | kLoading | kStale;
constexpr Bytes kConfig = "config";

constexpr CommandSpec kConfigSubcommands[] = {
    {.name = "get",
     .arity = at_least(3),
     .flags = kConfigFlags | kMayLeave,
     .run = config_get,
     .since = "2.0.0",
     .complexity = "O(N) when N is the number of configuration parameters provided",
     .summary = "Returns the effective values of configuration parameters.",
     .group = Group::kServer,
     .arguments = kConfigGetArguments,
     .container = kConfig},
    {.name = "set",
     .arity = at_least(4),
     .flags = kConfigFlags | kOffload | kNeverInline,
     .run = config_set,
     .since = "2.0.0",
     .complexity = "O(N) when N is the number of configuration parameters provided",
     .summary = "Sets configuration parameters in-flight.",
     .group = Group::kServer,
     .arguments = kConfigSetArguments,
     .container = kConfig},
    {.name = "rewrite",
     .arity = exactly(2),
     .flags = kConfigFlags | kOffload | kNeverInline,
     .run = config_rewrite,
     .since = "2.8.0",
     .complexity = "O(1)",
     .summary = "Persists the effective configuration to file.",
     .group = Group::kServer,
     .container = kConfig},
    {.name = "resetstat",
     .arity = exactly(2),
     .flags = kConfigFlags,
     .run = config_resetstat,
     .since = "2.0.0",
     .complexity = "O(1)",
     .summary = "Resets the server's statistics.",
     .group = Group::kServer,
     .container = kConfig},
    help_of(kConfig, "5.0.0", Group::kServer),
};

constexpr CommandSpec kServer[] = {
    {.name = kConfig,
     .arity = at_least(2),
     .since = "2.0.0",
     .complexity = "Depends on subcommand.",
     .summary = "A container for server configuration commands.",
     .group = Group::kServer,
     .subcommands = kConfigSubcommands},
    {.name = "time",
     .arity = exactly(1),
     .flags = kLoading | kStale | kFast,
     .run = time,
     .since = "2.6.0",
     .complexity = "O(1)",
     .summary = "Returns the server time.",
     .group = Group::kServer},
    {.name = "role",
     .arity = exactly(1),
     .flags = kNoScript | kLoading | kStale | kFast | kDangerous,
     .run = role,
     .since = "2.8.12",
     .complexity = "O(1)",
     .summary = "Returns the replication role.",
     .group = Group::kServer,
     .extra_acl = "@admin"},
    {.name = "save",
     .arity = exactly(1),
     .flags = kAdmin | kNoScript | kNoAsyncLoading | kNoMulti | kOffload | kLong | kNeverInline,
     .run = save,
     .since = "1.0.0",
     .complexity = "O(N) where N is the number of files; O(data) where backups lie on another file system",
     .summary = "Makes a backup of all databases and waits for it.",
     .group = Group::kServer},
    {.name = "bgsave",
     .arity = at_least(1),
     .flags = kAdmin | kNoScript | kNoAsyncLoading,
     .run = bgsave,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Makes a backup of all databases in the background.",
     .group = Group::kServer,
     .arguments = kBgsaveArguments},
    {.name = "lastsave",
     .arity = exactly(1),
     .flags = kLoading | kStale | kFast,
     .run = lastsave,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Returns the Unix timestamp of the last successful backup.",
     .group = Group::kServer,
     .extra_acl = "@admin @dangerous"},
    {.name = "shutdown",
     .arity = at_least(1),
     .flags = kAdmin | kNoScript | kLoading | kStale | kNoMulti | kAllowBusy,
     .run = shutdown,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Writes and syncs the log and shuts down the server.",
     .group = Group::kServer,
     .arguments = kShutdownArguments},
};

}  // namespace

std::span<const CommandSpec> server_commands() { return kServer; }

}  // namespace ebbtide
