// PURGE.*: reports if deleted data is purged, and starts purges.
//
// A ticket's text identifies it completely (engine/purge.h), so the server stores no tickets. These commands may read the
// metadata of all tables, so they run on offload threads. PURGE.WAIT occupies no thread while it waits: it checks, and runs again
// later.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

#include "commands/families.h"
#include "commands/purge_ticket.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "index/index_catalog.h"

namespace ebbtide {
namespace {

using Type = ArgDoc::Type;

constexpr std::uint32_t kFirstPollMs = 20, kLastPollMs = 500;

Result<PurgeTicket> ticket_argument(Bytes text) {
  if (const auto ticket = parse_ticket(text)) return *ticket;
  return reply_error("ERR not a purge ticket: purge-<number> or purge-<number>-<tree> is expected");
}

Status ticket(Ctx& ctx) {
  SeqNum up_to = 0;
  const PurgeTicket drawn = env_of(ctx).db->purge_ticket(&up_to);
  TRY(env_of(ctx).db->wait_synced(up_to));
  env_of(ctx).db->note_ticket(drawn);
  ctx.reply.bulk(format_ticket(drawn));
  return Status::ok();
}

void reply_time(Reply& reply, Bytes name, Millis time) {
  reply.bulk(name);
  time == 0 ? reply.null() : reply.integer(static_cast<std::int64_t>(time));
}

void reply_count(Reply& reply, Bytes name, std::uint64_t count) {
  reply.bulk(name);
  reply.integer(static_cast<std::int64_t>(count));
}

Status purge_status(Ctx& ctx) {
  TRY_ASSIGN(asked, ticket_argument(ctx.arg(1)));
  TRY_ASSIGN(status, env_of(ctx).db->purge_status(asked));
  Reply& reply = ctx.reply;
  reply.map(9);
  reply.bulk("ticket");
  reply.bulk(format_ticket(asked));
  reply.bulk("state");
  reply.bulk(status.done ? "done" : "pending");
  reply_time(reply, "deadline", status.deadline);
  reply_time(reply, "completed-at", status.completed_at);
  reply_count(reply, "files-left", status.files());
  reply_count(reply, "bytes-left", status.bytes());
  reply.bulk("waits-for");
  status.damage.files != 0 ? reply.bulk("damage") : reply.null();
  reply.bulk("left-in");
  const auto left = [&status](std::size_t place) { return status.left[place].oldest_birth != 0; };
  std::size_t places = 0;
  for (std::size_t place = 0; place < kPurgePlaces; ++place) places += left(place) ? 1 : 0;
  reply.array(places);
  for (std::size_t place = 0; place < kPurgePlaces; ++place) {
    if (left(place)) reply.bulk(purge_place_name(static_cast<PurgePlace>(place)));
  }
  reply.bulk("not-promised");
  reply.array(status.not_promised.size());
  for (const DatabaseId database : status.not_promised) reply.integer(database);
  return Status::ok();
}

Status wait(Ctx& ctx) {
  TRY_ASSIGN(asked, ticket_argument(ctx.arg(1)));
  TRY_ASSIGN(limit, timeout_argument(ctx.arg(2), ctx.now));
  TRY_ASSIGN(status, env_of(ctx).db->purge_status(asked));
  // Like WAIT, the command does not block inside a transaction.
  if (!status.done && !ctx.in_exec() && !ctx.unblocked() && (limit == 0 || ctx.waited_ms() < limit)) {
    std::uint64_t ms = std::clamp<std::uint64_t>(ctx.waited_ms() / 4, kFirstPollMs, kLastPollMs);
    if (limit != 0) ms = std::min(ms, limit - ctx.waited_ms());
    ctx.run_again_after(static_cast<std::uint32_t>(ms));
    return Status::ok();
  }
  ctx.reply.integer(status.done ? 1 : 0);
  return Status::ok();
}

Status now(Ctx& ctx) {
  PurgeTicket asked;
  if (ctx.argc() > 2) return syntax_error();
  if (ctx.argc() == 2) {
    TRY_ASSIGN(given, ticket_argument(ctx.arg(1)));
    asked = given;
  } else {
    SeqNum up_to = 0;
    asked = env_of(ctx).db->purge_ticket(&up_to);
  }
  TRY(env_of(ctx).db->purge_now(asked));
  ctx.reply.ok();
  return Status::ok();
}

Status list(Ctx& ctx) {
  const std::vector<PurgeTicket> open = env_of(ctx).db->open_tickets();
  ctx.reply.array(open.size());
  for (const PurgeTicket& ticket : open) ctx.reply.bulk(format_ticket(ticket));
  return Status::ok();
}

/// Formats a time like "2024-05-01T12:00:00.123Z", in quotes; 0 becomes null.
std::string json_time(Millis time) {
  if (time == 0) return "null";
  const auto seconds = static_cast<std::time_t>(time / 1000);
  std::tm parts{};
  char text[64];
  if (::gmtime_r(&seconds, &parts) == nullptr) return "null";
  const std::size_t n = std::strftime(text, sizeof(text), "\"%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + n, sizeof(text) - n, ".%03uZ\"", static_cast<unsigned>(time % 1000));
  return text;
}

std::string report_of(const PurgeTicket& ticket, const PurgeStatus& status, const ServerInfo& server, Millis now) {
  std::string out = "{\"ticket\":\"" + format_ticket(ticket) + "\"";
  const auto field = [&out](const char* name, const std::string& value) { out += std::string(",\"") + name + "\":" + value; };
  const auto word = [](bool yes) { return std::string(yes ? "true" : "false"); };
  field("state", status.done ? "\"done\"" : "\"pending\"");
  field("covers", ticket.tree ? "\"every delete in tree " + std::to_string(*ticket.tree) + " born by then\""
                              : "\"every delete born by then, in every database with a delete deadline\"");
  field("born_by", json_time(ticket.born_by));
  field("promised", status.promised ? word(*status.promised) : "null");
  field("deadline", json_time(status.deadline));
  field("gone_at_the_latest", json_time(status.completed_at));
  field("in_time", status.in_time ? word(*status.in_time) : "null");
  std::string places, databases;
  for (std::size_t place = 0; place < kPurgePlaces; ++place) {
    const PurgeStatus::Left& left = status.left[place];
    places += std::string(places.empty() ? "\"" : ",\"") + purge_place_name(static_cast<PurgePlace>(place)) +
              "\":{\"count\":" + std::to_string(left.files) + ",\"bytes\":" + std::to_string(left.bytes) +
              ",\"oldest_birth\":" + json_time(left.oldest_birth) + "}";
  }
  for (const DatabaseId database : status.not_promised) databases += (databases.empty() ? "" : ",") + std::to_string(database);
  field("left", "{" + places + "}");
  field("held_by_damage", "{\"count\":" + std::to_string(status.damage.files) +
                              ",\"bytes\":" + std::to_string(status.damage.bytes) +
                              ",\"oldest_birth\":" + json_time(status.damage.oldest_birth) + "}");
  field("databases_not_promised", "[" + databases + "]");
  field("scope",
        "\"the files of the data directory; not the copies that the file system's journal, the drive, or backups keep\"");
  field("written_at", json_time(now));
  field("server_version", "\"" + server.version + "\"");
  field("run_id", "\"" + server.run_id + "\"");
  return out + "}";
}

Status report(Ctx& ctx) {
  TRY_ASSIGN(asked, ticket_argument(ctx.arg(1)));
  TRY_ASSIGN(status, env_of(ctx).db->purge_status(asked));
  ctx.reply.bulk(report_of(asked, status, ctx.server().info(), env_of(ctx).db->now()));
  return Status::ok();
}

constexpr ArgDoc kTicketArguments[] = {
    {.name = "ticket"},
};
constexpr ArgDoc kOptionalTicketArguments[] = {
    {.name = "ticket", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kWaitArguments[] = {
    {.name = "ticket"},
    {.name = "timeout", .type = Type::kInteger},
};

constexpr CommandSpec kPurge[] = {
    {.name = "purge.ticket",
     .arity = exactly(1),
     .flags = kNoMulti | kNoScript | kOffload,
     .run = ticket,
     .since = "0.1.0",
     .complexity = "O(1)",
     .summary = "Returns a purge ticket for every delete acknowledged so far, by any client.",
     .group = Group::kExtension},
    {.name = "purge.status",
     .arity = exactly(2),
     .flags = kOffload,
     .run = purge_status,
     .since = "0.1.0",
     .complexity = "O(N) where N is the number of files.",
     .summary = "Shows whether a ticket's deleted data has left the files, the ticket's deadline, and the files and bytes that "
                "are left.",
     .group = Group::kExtension,
     .arguments = kTicketArguments},
    {.name = "purge.wait",
     .arity = exactly(3),
     .flags = kOffload | kBlocking,
     .run = wait,
     .since = "0.1.0",
     .complexity = "O(N) where N is the number of files, again and again.",
     .summary =
         "Blocks until the deletes of a ticket have left the files, or the given number of milliseconds is over; 0 = no limit.",
     .group = Group::kExtension,
     .arguments = kWaitArguments},
    {.name = "purge.now",
     .arity = at_least(1),
     .flags = kAdmin | kNoScript | kOffload,
     .run = now,
     .since = "0.1.0",
     .complexity = "O(N) where N is the number of files.",
     .summary = "Starts the work for a ticket's deletes, or for all deletes so far, now instead of by their deadline.",
     .group = Group::kExtension,
     .arguments = kOptionalTicketArguments},
    {.name = "purge.list",
     .arity = exactly(1),
     .flags = kOffload,
     .run = list,
     .since = "0.1.0",
     .complexity = "O(N + M) where N is the number of files and M that of tickets.",
     .summary = "Returns the latest tickets issued since the start whose deletes have not left the files.",
     .group = Group::kExtension},
    {.name = "purge.report",
     .arity = exactly(2),
     .flags = kOffload,
     .run = report,
     .since = "0.1.0",
     .complexity = "O(N) where N is the number of files.",
     .summary =
         "Returns a certificate, as JSON without names of keys: whether a ticket's deletes have left the files, and by when.",
     .group = Group::kExtension,
     .arguments = kTicketArguments},
};

}  // namespace

void reply_ticket(Ctx& ctx) {
  TreeId tree = kNoTree;
  std::size_t cursor = ctx.first_op();
  if (WriteBatch::Op op; cursor < ctx.ops_end() && ctx.batch.next_op(&cursor, &op)) {
    tree = op.tree;
  } else if (const auto info = env_of(ctx).db->tree_info(ctx.view.database()); info.is_ok()) {
    tree = info->tree;
  }
  SeqNum up_to = 0;
  const Millis born_by = ctx.batch.empty() ? env_of(ctx).db->purge_ticket(&up_to).born_by : ctx.batch.time();
  PurgeTicket ticket{born_by, tree};
  const IndexCatalog* const indexes = env_of(ctx).indexes;
  if (indexes != nullptr && !indexes->of(ctx.view.database())->empty()) ticket.tree.reset();  // index trees have deletes, too
  env_of(ctx).db->note_ticket(ticket);
  ctx.reply.bulk(format_ticket(ticket));
}

std::span<const CommandSpec> purge_commands() { return kPurge; }

}  // namespace ebbtide
