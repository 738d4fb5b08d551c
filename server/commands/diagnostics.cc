// Diagnostics: SLOWLOG, LATENCY, MEMORY, MONITOR, LOLWUT.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "commands/exec_walk.h"
#include "commands/families.h"
#include "commands/help_spec.h"
#include "commands/large_access.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/server_stats.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

// --- SLOWLOG

Status slowlog_get(Ctx& ctx) {
  if (ctx.argc() > 3) return wrong_subcommand_arguments(ctx.command, ctx.args);
  std::int64_t count = 10;
  if (ctx.argc() == 3) {
    const auto given = integer_argument_in(ctx.arg(2), -1, std::numeric_limits<std::int64_t>::max());
    if (!given.is_ok()) return reply_error("ERR count should be greater than or equal to -1");
    count = *given;
  }
  constexpr std::uint64_t kEntryBytes = 512;
  const std::uint64_t kept = env_of(ctx).observers->slow_log.size();
  TRY(ctx.work(kEntryBytes * (count < 0 ? kept : std::min(kept, static_cast<std::uint64_t>(count)))));
  const auto entries = env_of(ctx).observers->slow_log.latest(count < 0 ? ~std::size_t{0} : static_cast<std::size_t>(count));
  ctx.reply.array(entries.size());
  for (const SlowLog::Entry& entry : entries) {
    ctx.reply.array(6);
    ctx.reply.integer(static_cast<std::int64_t>(entry.id));
    ctx.reply.integer(entry.unix_seconds);
    ctx.reply.integer(static_cast<std::int64_t>(entry.micros));
    ctx.reply.array(entry.arguments.size());
    for (const std::string& argument : entry.arguments) ctx.reply.bulk(argument);
    ctx.reply.bulk(entry.address);
    ctx.reply.bulk(entry.name);
  }
  return Status::ok();
}

Status slowlog_len(Ctx& ctx) {
  ctx.reply.integer(static_cast<std::int64_t>(env_of(ctx).observers->slow_log.size()));
  return Status::ok();
}

Status slowlog_reset(Ctx& ctx) {
  env_of(ctx).observers->slow_log.reset();
  ctx.reply.ok();
  return Status::ok();
}

// --- LATENCY

void reply_sample(Reply& reply, const LatencyMonitor::Sample& sample) {
  reply.array(2);
  reply.integer(sample.unix_seconds);
  reply.integer(static_cast<std::int64_t>(sample.ms));
}

Status latency_latest(Ctx& ctx) {
  const auto events = env_of(ctx).observers->latency.events();
  ctx.reply.array(events.size());
  for (const auto& [name, event] : events) {
    ctx.reply.array(4);
    ctx.reply.bulk(name);
    ctx.reply.integer(event.samples.back().unix_seconds);
    ctx.reply.integer(static_cast<std::int64_t>(event.samples.back().ms));
    ctx.reply.integer(static_cast<std::int64_t>(event.max_ms));
  }
  return Status::ok();
}

Status latency_history(Ctx& ctx) {
  const auto event = env_of(ctx).observers->latency.event(ctx.arg(2));
  ctx.reply.array(event.samples.size());
  for (const auto& sample : event.samples) reply_sample(ctx.reply, sample);
  return Status::ok();
}

Status latency_graph(Ctx& ctx) {
  const auto event = env_of(ctx).observers->latency.event(ctx.arg(2));
  if (event.samples.empty()) return reply_error("ERR No samples available for event '" + std::string(shown(ctx.arg(2))) + "'");
  const auto now = static_cast<std::int64_t>(ctx.server().unix_micros() / 1'000'000);
  ctx.reply.verbatim("txt", draw_latency(ctx.arg(2), event, now));
  return Status::ok();
}

/// The work, in bytes, for the look-up of one name among the arguments.
constexpr std::uint64_t kNameWork = 64;

Status latency_reset(Ctx& ctx) {
  TRY(ctx.work(kNameWork * ctx.argc()));
  std::size_t gone = ctx.argc() == 2 ? env_of(ctx).observers->latency.reset_all() : 0;
  for (std::size_t i = 2; i < ctx.argc(); ++i) gone += env_of(ctx).observers->latency.reset(ctx.arg(i)) ? 1 : 0;
  ctx.reply.integer(static_cast<std::int64_t>(gone));
  return Status::ok();
}

Status latency_doctor(Ctx& ctx) {
  const LatencyMonitor& monitor = env_of(ctx).observers->latency;
  std::string text;
  if (monitor.threshold_ms() == 0) {
    text =
        "Latency events are not recorded: CONFIG SET latency-monitor-threshold <milliseconds> records them. LATENCY HISTOGRAM, "
        "SLOWLOG GET and the metrics port show how long commands take in any case.\n";
  } else if (const auto events = monitor.events(); events.empty()) {
    text = "No command has kept an event loop busy for " + std::to_string(monitor.threshold_ms()) + " ms or more.\n";
  } else {
    for (const auto& [name, event] : events) {
      std::uint64_t sum = 0;
      for (const auto& sample : event.samples) sum += sample.ms;
      text += name + ": " + std::to_string(event.samples.size()) + " latency spikes (average " +
              std::to_string(sum / event.samples.size()) + " ms, maximum since the last reset " + std::to_string(event.max_ms) +
              " ms).\n";
    }
    text +=
        "SLOWLOG GET names the commands. All other commands of the same event loop waited for them; server.threads adds loops.\n";
  }
  ctx.reply.verbatim("txt", text);
  return Status::ok();
}

Status latency_histogram(Ctx& ctx) {
  TRY(ctx.work(kNameWork * ctx.argc()));
  const auto counts = env_of(ctx).stats->commands();
  std::vector<const Command*> shown;
  std::vector<bool> is_shown(counts.size());  // a command that is named several times is shown once
  const auto add = [&](const Command& command) {
    if (command.spec->run == nullptr || counts[command.index].calls == 0 || is_shown[command.index]) return;
    is_shown[command.index] = true;
    shown.push_back(&command);
  };
  if (ctx.argc() == 2) {
    for (const Command& command : env_of(ctx).table->all()) add(command);
  }
  for (std::size_t i = 2; i < ctx.argc(); ++i) {
    const Command* command = env_of(ctx).table->find_full(ctx.arg(i));
    if (command == nullptr) continue;
    add(*command);
    for (std::size_t s = 0; s < command->spec->subcommands.size(); ++s)
      add(env_of(ctx).table->all()[command->first_subcommand + s]);
  }
  ctx.reply.map(shown.size());
  for (const Command* command : shown) {
    const CommandCounts& c = counts[command->index];
    ctx.reply.bulk(command->full_name);
    ctx.reply.map(2);
    ctx.reply.bulk("calls");
    ctx.reply.integer(static_cast<std::int64_t>(c.calls));
    ctx.reply.bulk("histogram_usec");
    // For each upper bound at which the cumulative count grows: the bound and the count.
    std::vector<std::pair<std::int64_t, std::uint64_t>> rows;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < std::size(kCallBounds); ++i) {
      if (c.buckets[i] == 0) continue;
      sum += c.buckets[i];
      rows.emplace_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(kCallBounds[i] / 1000)), sum);
    }
    ctx.reply.map(rows.size());
    for (const auto& [bound, n] : rows) {
      ctx.reply.integer(bound);
      ctx.reply.integer(static_cast<std::int64_t>(n));
    }
  }
  return Status::ok();
}

// --- MEMORY

/// Estimated memory of an entry in a memtable, without its key and value.
constexpr std::size_t kEntryBytes = 56;
// Estimated bytes of an element of a large collection: name and value of usual length, without the collection's key.
constexpr std::size_t kElementBytes = 64;

Status memory_usage(Ctx& ctx) {
  for (ArgCursor cursor(ctx.args, 3); !cursor.done();) {
    Bytes value;
    if (!cursor.take_option("SAMPLES", &value)) return syntax_error();
    TRY_ASSIGN(samples, integer_argument(value));
    if (samples < 0) return syntax_error();
  }
  std::optional<Found> found;
  TRY(ctx.strings().locate_any(ctx.key(), &found));
  if (!found) {
    ctx.reply.null();
  } else {
    std::uint64_t bytes = ctx.key().key.size() + found->length + kEntryBytes;
    if (is_large(found)) {
      TRY_ASSIGN(header, header_of(*found));
      bytes += header.count * (ctx.key().key.size() + kElementBytes);
    }
    ctx.reply.integer(static_cast<std::int64_t>(bytes));
  }
  return Status::ok();
}

Status memory_stats(Ctx& ctx) {
  if (ctx.in_exec()) TRY(ctx.work(kEstimateBytes));
  const ServerInfo info = ctx.server().info();
  const MemoryAccount& account = env_of(ctx).db->memory();
  const std::pair<Bytes, std::uint64_t> rows[] = {
      {"peak.allocated", info.peak_resident_bytes},
      {"total.allocated", info.resident_bytes},
      {"startup.allocated", 0},
      {"replication.backlog", 0},
      {"clients.slaves", 0},
      {"clients.normal", info.clients_bytes},
      {"large.values", account.charged(MemoryAccount::Kind::kLargeValues)},
      {"fetched.pages", account.charged(MemoryAccount::Kind::kPages)},
      {"commands", account.charged(MemoryAccount::Kind::kCommands)},
      {"budget", env_of(ctx).db->settings().memory_budget},
      {"keys.count", env_of(ctx).db->estimate_keys(ctx.session.database, KeyRange{})},
  };
  ctx.reply.map(std::size(rows));
  for (const auto& [name, value] : rows) {
    ctx.reply.bulk(name);
    ctx.reply.integer(static_cast<std::int64_t>(value));
  }
  return Status::ok();
}

Status memory_doctor(Ctx& ctx) {
  const ServerInfo info = ctx.server().info();
  const std::uint64_t budget = env_of(ctx).db->settings().memory_budget;
  if (info.resident_bytes > budget + budget / 4) {
    ctx.reply.verbatim("txt", "The process holds " + std::to_string(info.resident_bytes >> 20) +
                                  " MiB, well over storage.memory_budget (" + std::to_string(budget >> 20) +
                                  " MiB): the allocator may keep freed memory.\n");
  } else {
    ctx.reply.verbatim("txt", "Memory is within storage.memory_budget.\n");
  }
  return Status::ok();
}

Status memory_malloc_stats(Ctx& ctx) {
  ctx.reply.verbatim("txt", "Stats not supported for the current allocator");
  return Status::ok();
}

Status memory_purge(Ctx& ctx) {
  ctx.reply.ok();
  return Status::ok();
}

// --- MONITOR

Status monitor(Ctx& ctx) {
  state_of(*ctx.client).monitored = &env_of(ctx).observers->monitors;
  ctx.client->subscriber = true;  // so the connection is never closed as idle
  env_of(ctx).observers->monitors.add(*ctx.client);
  ctx.reply.ok();
  return Status::ok();
}

// --- LOLWUT

Status lolwut(Ctx& ctx) {
  // In Redis the version chooses a picture. Here there is only one.
  if (ctx.argc() >= 3 && equal_ignoring_case(ctx.arg(1), "version")) TRY(integer_argument(ctx.arg(2)).status());
  // A picture of the ebb: each row has a little less water than the row above.
  std::string picture;
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 48; ++column)
      picture += (column + row * row) % (row + 3) == 0 ? '~' : column % 7 == row ? '.' : ' ';
    picture += '\n';
  }
  ctx.reply.verbatim("txt", picture + "\nRedis ver. 7.2.0\n");
  return Status::ok();
}

constexpr ArgDoc kCount[] = {{.name = "count", .type = ArgDoc::Type::kInteger, .flags = ArgDoc::kOptional}};
constexpr ArgDoc kEvent[] = {{.name = "event"}};
constexpr ArgDoc kEvents[] = {{.name = "event", .flags = ArgDoc::kOptional | ArgDoc::kMultiple}};
constexpr ArgDoc kCommands[] = {{.name = "command", .flags = ArgDoc::kOptional | ArgDoc::kMultiple}};
constexpr ArgDoc kUsage[] = {
    {.name = "key", .type = ArgDoc::Type::kKey},
    {.name = "count", .type = ArgDoc::Type::kInteger, .token = "SAMPLES", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kVersion[] = {
    {.name = "version", .type = ArgDoc::Type::kInteger, .token = "VERSION", .flags = ArgDoc::kOptional}};

constexpr auto kGroup = Group::kServer;
constexpr auto kLook = kAdmin | kNoScript | kLoading | kStale;
constexpr auto kHelpFlags = kLoading | kStale;

constexpr CommandSpec kSlowlog[] = {
    {.name = "get",
     .arity = at_least(2),
     .flags = kAdmin | kHelpFlags | kMayLeave,
     .run = slowlog_get,
     .since = "2.2.12",
     .complexity = "O(N) where N is the number of entries returned",
     .summary = "Returns the latest slow commands.",
     .group = kGroup,
     .arguments = kCount,
     .container = "slowlog"},
    help_of("slowlog", "6.2.0", kGroup),
    {.name = "len",
     .arity = exactly(2),
     .flags = kAdmin | kHelpFlags,
     .run = slowlog_len,
     .since = "2.2.12",
     .complexity = "O(1)",
     .summary = "Returns the number of entries in the slow log.",
     .group = kGroup,
     .container = "slowlog"},
    {.name = "reset",
     .arity = exactly(2),
     .flags = kAdmin | kHelpFlags,
     .run = slowlog_reset,
     .since = "2.2.12",
     .complexity = "O(N) where N is the number of entries",
     .summary = "Removes all entries from the slow log.",
     .group = kGroup,
     .container = "slowlog"},
};

constexpr CommandSpec kLatency[] = {
    {.name = "doctor",
     .arity = exactly(2),
     .flags = kLook,
     .run = latency_doctor,
     .since = "2.8.13",
     .complexity = "O(1)",
     .summary = "Explains where to look for causes of latency.",
     .group = kGroup,
     .container = "latency"},
    {.name = "graph",
     .arity = exactly(3),
     .flags = kLook,
     .run = latency_graph,
     .since = "2.8.13",
     .complexity = "O(1)",
     .summary = "Returns a latency graph for an event.",
     .group = kGroup,
     .arguments = kEvent,
     .container = "latency"},
    help_of("latency", "2.8.13", kGroup),
    {.name = "histogram",
     .arity = at_least(2),
     .flags = kLook | kMayLeave,
     .run = latency_histogram,
     .since = "7.0.0",
     .complexity = "O(N) where N is the number of commands",
     .summary = "Returns how long commands' calls took, as counts by upper bound.",
     .group = kGroup,
     .arguments = kCommands,
     .container = "latency"},
    {.name = "history",
     .arity = exactly(3),
     .flags = kLook,
     .run = latency_history,
     .since = "2.8.13",
     .complexity = "O(1)",
     .summary = "Returns timestamp-latency samples for an event.",
     .group = kGroup,
     .arguments = kEvent,
     .container = "latency"},
    {.name = "latest",
     .arity = exactly(2),
     .flags = kLook,
     .run = latency_latest,
     .since = "2.8.13",
     .complexity = "O(1)",
     .summary = "Returns the latest latency samples for all events.",
     .group = kGroup,
     .container = "latency"},
    {.name = "reset",
     .arity = at_least(2),
     .flags = kLook | kMayLeave,
     .run = latency_reset,
     .since = "2.8.13",
     .complexity = "O(1)",
     .summary = "Resets the latency data for one or more events.",
     .group = kGroup,
     .arguments = kEvents,
     .container = "latency"},
};

constexpr CommandSpec kMemory[] = {
    {.name = "doctor",
     .arity = exactly(2),
     .run = memory_doctor,
     .since = "4.0.0",
     .complexity = "O(1)",
     .summary = "Reports whether memory use is within its budget.",
     .group = kGroup,
     .container = "memory"},
    help_of("memory", "4.0.0", kGroup),
    {.name = "malloc-stats",
     .arity = exactly(2),
     .run = memory_malloc_stats,
     .since = "4.0.0",
     .complexity = "O(1)",
     .summary = "Returns the allocator's statistics, if it has any.",
     .group = kGroup,
     .container = "memory"},
    {.name = "purge",
     .arity = exactly(2),
     .run = memory_purge,
     .since = "4.0.0",
     .complexity = "O(1)",
     .summary = "Accepted, and without effect: the allocator gives memory back by itself.",
     .group = kGroup,
     .container = "memory"},
    {.name = "stats",
     .arity = exactly(2),
     .run = memory_stats,
     .since = "4.0.0",
     .complexity = "O(N) where N is the number of files",
     .summary = "Describes what memory is used for.",
     .group = kGroup,
     .container = "memory"},
    {.name = "usage",
     .arity = at_least(3),
     .keys = {.first = 2, .access = KeySpec::kRo},
     .flags = kReadOnly,
     .run = memory_usage,
     .since = "4.0.0",
     .complexity = "O(1)",
     .summary = "Estimates what a key and its value take in memory.",
     .group = kGroup,
     .arguments = kUsage,
     .container = "memory"},
};

constexpr CommandSpec kDiagnostics[] = {
    {.name = "slowlog",
     .arity = at_least(2),
     .since = "2.2.12",
     .complexity = "Depends on subcommand.",
     .summary = "A container for slow log commands.",
     .group = kGroup,
     .subcommands = kSlowlog},
    {.name = "latency",
     .arity = at_least(2),
     .since = "2.8.13",
     .complexity = "Depends on subcommand.",
     .summary = "A container for latency diagnostics commands.",
     .group = kGroup,
     .subcommands = kLatency},
    {.name = "memory",
     .arity = at_least(2),
     .since = "4.0.0",
     .complexity = "Depends on subcommand.",
     .summary = "A container for memory diagnostics commands.",
     .group = kGroup,
     .subcommands = kMemory},
    {.name = "monitor",
     .arity = exactly(1),
     .flags = kLook | kOnLoop | kNoMulti,
     .run = monitor,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Sends the connection every command that the server runs, as it runs it.",
     .group = kGroup},
    {.name = "lolwut",
     .arity = at_least(1),
     .flags = kReadOnly | kFast,
     .run = lolwut,
     .since = "5.0.0",
     .complexity = "O(1)",
     .summary = "Draws a picture, and shows the version of Redis that the server follows.",
     .group = kGroup,
     .arguments = kVersion},
};

}  // namespace

std::span<const CommandSpec> diagnostics_commands() { return kDiagnostics; }

}  // namespace ebbtide
