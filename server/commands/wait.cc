// WAIT and WAITAOF: reply with the number of servers, or of logs, that have the client's writes.
//
// This server has no replicas, and none can connect while a client waits. So the reply leaves at once, while Redis would wait for
// the timeout. WAITAOF with numlocal = 1 waits until the log is synced past everything that was visible when the command began.
#include "commands/families.h"
#include "commands/keys_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

Status wait(Ctx& ctx) {
  TRY(integer_argument(ctx.arg(1)).status());
  TRY(timeout_argument(ctx.arg(2), ctx.now).status());
  ctx.reply.integer(0);
  return Status::ok();
}

Status waitaof(Ctx& ctx) {
  TRY_ASSIGN(local, integer_argument_in(ctx.arg(1), 0, 1));
  const auto replicas = parse_integer(ctx.arg(2));
  if (!replicas || *replicas < 0) return reply_error("ERR value is out of range, must be positive");
  TRY(timeout_argument(ctx.arg(3), ctx.now).status());
  const SeqNum seen = ctx.view.seq();
  // As in Redis, the command does not wait inside a transaction.
  const bool waits = local == 1 && !ctx.in_exec();
  if (waits) TRY(env_of(ctx).db->wait_synced(seen));
  const bool synced = waits || env_of(ctx).db->stats().synced_seq >= seen;
  ctx.reply.array(2);
  ctx.reply.integer(synced ? 1 : 0);
  ctx.reply.integer(0);
  return Status::ok();
}

constexpr CommandSpec kWait[] = {
    {.name = "wait",
     .arity = exactly(3),
     .run = wait,
     .since = "3.0.0",
     .complexity = "O(1)",
     .summary = "Returns how many replicas have the connection's writes: none.",
     .arguments = kWaitArguments,
     .extra_acl = "@connection"},
    {.name = "waitaof",
     .arity = exactly(4),
     .flags = kNoScript | kOffload,
     .run = waitaof,
     .since = "7.2.0",
     .complexity = "O(1)",
     .summary = "Waits until the log is synced past everything that was written before.",
     .arguments = kWaitaofArguments,
     .extra_acl = "@connection"},
};

}  // namespace

std::span<const CommandSpec> wait_commands() { return kWait; }

}  // namespace ebbtide
