// Commands on whole databases: FLUSHDB, FLUSHALL, SWAPDB. Each is one operation in the log, for any size of database.
#include <limits>
#include <string>

#include "commands/families.h"
#include "commands/server_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"

namespace ebbtide {
namespace {

/// Checks the option. ASYNC and SYNC have the same effect: the files of the old tree are removed once no reader uses them.
Status check_flush_mode(const Ctx& ctx) {
  ArgCursor cursor(ctx.args, 1);
  if (!cursor.done() && !cursor.take_word("ASYNC") && !cursor.take_word("SYNC")) return syntax_error();
  return cursor.done() ? Status::ok() : syntax_error();
}

Status flushdb(Ctx& ctx) {
  TRY(check_flush_mode(ctx));
  // Off the loop the view may be older than the commit: a database without keys may have some by then, so it is emptied, too.
  if (ctx.off_loop != nullptr || ctx.has_tree()) ctx.batch.flush_database(ctx.session.database);
  ctx.reply.ok();
  return Status::ok();
}

Status flushall(Ctx& ctx) {
  TRY(check_flush_mode(ctx));
  for (DatabaseId database = 0; database < ctx.server().databases(); ++database) {
    // as in flushdb(): only databases that have data
    if (ctx.off_loop != nullptr || ctx.has_tree(env_of(ctx).db->view(database, ctx.now, ReadMode::kResident, nullptr)))
      ctx.batch.flush_database(database);
  }
  ctx.reply.ok();
  return Status::ok();
}

Result<DatabaseId> database_argument(const Ctx& ctx, std::size_t i, const char* error) {
  const auto number = integer_argument_in(ctx.arg(i), std::numeric_limits<int>::min(), std::numeric_limits<int>::max());
  if (!number.is_ok()) return reply_error(error);
  return static_cast<DatabaseId>(*number);
}

Status swapdb(Ctx& ctx) {
  TRY_ASSIGN(a, database_argument(ctx, 1, "ERR invalid first DB index"));
  TRY_ASSIGN(b, database_argument(ctx, 2, "ERR invalid second DB index"));
  if (a >= ctx.server().databases() || b >= ctx.server().databases()) return reply_error("ERR DB index is out of range");
  if (a != b) ctx.batch.swap_databases(a, b);
  ctx.reply.ok();
  return Status::ok();
}

constexpr auto kWhole = kWrite | kDangerous | kLockAll | kAnyThread;

constexpr CommandSpec kDatabases[] = {
    {.name = "flushdb",
     .arity = at_least(1),
     .flags = kWhole,
     .run = flushdb,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Removes all keys from the current database.",
     .group = Group::kServer,
     .arguments = kFlushdbArguments,
     .extra_acl = "@keyspace"},
    {.name = "flushall",
     .arity = at_least(1),
     .flags = kWhole,
     .run = flushall,
     .since = "1.0.0",
     .complexity = "O(N) where N is the number of databases.",
     .summary = "Removes all keys from all databases.",
     .group = Group::kServer,
     .arguments = kFlushallArguments,
     .extra_acl = "@keyspace"},
    {.name = "swapdb",
     .arity = exactly(3),
     .flags = kWhole | kFast,
     .run = swapdb,
     .since = "4.0.0",
     .complexity = "O(1)",
     .summary = "Swaps two databases.",
     .group = Group::kServer,
     .arguments = kSwapdbArguments,
     .extra_acl = "@keyspace"},
};

}  // namespace

std::span<const CommandSpec> database_commands() { return kDatabases; }

}  // namespace ebbtide
