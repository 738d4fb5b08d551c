// MULTI, EXEC, DISCARD, WATCH, UNWATCH. Dispatch runs transactions: dispatch/transaction.cc.
#include <map>
#include <string>
#include <utility>

#include "commands/families.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "store/key_codec.h"

namespace ebbtide {
namespace {

/// Memory of a watched key, without the key's bytes: a node of the map, rounded up.
constexpr std::size_t kWatchedBytes = sizeof(WatchedKeys::Place) + sizeof(WatchedKey) + 48;

Status multi(Ctx& ctx) {
  if ((ctx.session.modes & Session::kInTransaction) != 0) return reply_error("ERR MULTI calls can not be nested");
  Transaction& transaction = make_transaction(*ctx.client, *env_of(ctx).memory);
  transaction.open = true;
  transaction.database = ctx.session.database;
  ctx.session.modes |= Session::kInTransaction;
  ctx.reply.ok();
  return Status::ok();
}

/// Never called: dispatch runs EXEC itself.
Status exec(Ctx&) { return reply_error("ERR EXEC without MULTI"); }

Status discard(Ctx& ctx) {
  if ((ctx.session.modes & Session::kInTransaction) == 0) return reply_error("ERR DISCARD without MULTI");
  end_transaction(*ctx.client);
  ctx.reply.ok();
  return Status::ok();
}

Status watch(Ctx& ctx) {
  if ((ctx.session.modes & Session::kInTransaction) != 0) return reply_error("ERR WATCH inside MULTI is not allowed");
  Transaction& transaction = make_transaction(*ctx.client, *env_of(ctx).memory);
  std::uint64_t bytes = 0;
  std::map<std::string, WatchedKey> added;
  bool resident = true;
  std::string buffer;
  for (std::size_t i = ctx.slice_begin(); i < ctx.slice_end(); ++i) {
    LookupKey key;
    if (ctx.keys.empty()) {  // dispatch does not collect the keys of a sliced command
      const Bytes name = escape_key(ctx.arg(i), &buffer);
      key = {name, hash_key(name)};
    } else {
      key = ctx.key(i - 1);
    }
    std::string place(key.key);
    if (transaction.watched.contains({ctx.session.database, key.key}) || added.contains(place)) continue;
    Found found;
    const Status status = ctx.view.locate(key, &found);
    resident &= !status.is_not_resident();
    if (!resident) continue;
    if (!status.is_ok() && !status.is_not_found()) return status;
    bytes += kWatchedBytes + key.key.size();
    added.emplace(std::move(place),
                  WatchedKey{.hash = key.hash, .seen_seq = ctx.view.seq(), .entry_seq = found.seq, .present = status.is_ok()});
  }
  if (!resident) return Status::not_resident();
  if (!transaction.charge(bytes)) return Status::out_of_memory("the watched keys did not fit into memory");
  for (const auto& [key, watched] : added) transaction.watched.add({ctx.session.database, key}, watched);
  ctx.end_slice();
  if (!ctx.unfinished) ctx.reply.ok();
  return Status::ok();
}

Status unwatch(Ctx& ctx) {
  // Inside EXEC nothing is to be done: the watched keys were compared before, and are freed after it.
  Transaction* transaction = transaction_of(*ctx.client);
  if (!ctx.in_exec() && transaction != nullptr) transaction->end();
  ctx.reply.ok();
  return Status::ok();
}

constexpr ArgDoc kWatchArguments[] = {
    {.name = "key", .type = ArgDoc::Type::kKey, .flags = ArgDoc::kMultiple},
};

constexpr auto kFlags = kNoScript | kLoading | kStale;
constexpr auto kGroup = Group::kTransactions;

constexpr CommandSpec kTransactions[] = {
    {.name = "multi",
     .arity = exactly(1),
     .flags = kFlags | kFast | kAllowBusy | kImmediate,
     .run = multi,
     .since = "1.2.0",
     .complexity = "O(1)",
     .summary = "Begins a transaction: the commands that follow are queued.",
     .group = kGroup},
    {.name = "exec",
     .arity = exactly(1),
     .flags = kFlags | kSkipSlowlog | kImmediate | kRunsQueue,
     .run = exec,
     .since = "1.2.0",
     .complexity = "Depends on the queued commands.",
     .summary = "Runs the queued commands as one, unless a watched key has changed.",
     .group = kGroup},
    {.name = "discard",
     .arity = exactly(1),
     .flags = kFlags | kFast | kAllowBusy | kImmediate,
     .run = discard,
     .since = "2.0.0",
     .complexity = "O(N) where N is the number of queued commands.",
     .summary = "Discards the queued commands and stops watching keys.",
     .group = kGroup},
    {.name = "watch",
     .arity = at_least(2),
     .keys = {.first = 1, .last = -1, .access = KeySpec::kRo},
     .flags = kFlags | kFast | kAllowBusy | kImmediate | kOnLoop | kSliced,
     .run = watch,
     .since = "2.2.0",
     .complexity = "O(1) for every key.",
     .summary = "Makes the next EXEC depend on keys: it runs only if they have not changed until then.",
     .group = kGroup,
     .arguments = kWatchArguments},
    {.name = "unwatch",
     .arity = exactly(1),
     .flags = kFlags | kFast | kAllowBusy,
     .run = unwatch,
     .since = "2.2.0",
     .complexity = "O(1)",
     .summary = "Stops watching all keys.",
     .group = kGroup},
};

}  // namespace

std::span<const CommandSpec> transaction_commands() { return kTransactions; }

}  // namespace ebbtide
