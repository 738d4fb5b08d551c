// TUNE.*: the workload of the current database, and the tuner's advice for the database's settings.
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <engine/policies.h>
#include <engine/tuner.h>
#include "commands/config_access.h"
#include "commands/families.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "tuning/apply_advice.h"
#include "tuning/tuning_board.h"

namespace ebbtide {
namespace {

using Type = ArgDoc::Type;

/// How many windows TUNE.WORKLOAD shows without an argument, and the most that it accepts.
constexpr std::int64_t kShownWindows = 10, kMostWindows = std::int64_t{1} << 16;

void reply_field(Reply& reply, Bytes name, std::uint64_t value) {
  reply.bulk(name);
  reply.integer(static_cast<std::int64_t>(value));
}
void reply_field(Reply& reply, Bytes name, double value) {
  reply.bulk(name);
  reply.double_(value);
}
void reply_field(Reply& reply, Bytes name, Bytes value) {
  reply.bulk(name);
  reply.bulk(value);
}

void reply_figures(Reply& reply, Bytes name, const OperationFigures& figures) {
  reply.bulk(name);
  reply.map(4);
  reply_field(reply, "empty-read", figures.empty_read);
  reply_field(reply, "read", figures.read);
  reply_field(reply, "range", figures.range);
  reply_field(reply, "write", figures.write);
}

void reply_counts(Reply& reply, const OperationCounts& counts) {
  reply_field(reply, "empty-reads", counts.empty_reads);
  reply_field(reply, "reads", counts.reads);
  reply_field(reply, "ranges", counts.ranges);
  reply_field(reply, "writes", counts.writes);
  reply_field(reply, "range-entries", counts.range_entries);
  reply_field(reply, "deletes", counts.deletes);
  reply_field(reply, "stamp-deletes", counts.stamp_deletes);
}

/// Writes the name and parameters of a policy; unset parameters with their defaults.
void reply_policy(Reply& reply, const PolicySettings& policy) {
  const std::vector<PolicyParameterInfo> parameters = policy_parameters(policy.name);
  reply.bulk("policy");
  reply.map(1 + parameters.size());
  reply_field(reply, "name", Bytes(policy.name));
  for (const PolicyParameterInfo& parameter : parameters) {
    const auto set = policy.parameters.find(parameter.name);
    reply_field(reply, parameter.name, set == policy.parameters.end() ? parameter.fallback : set->second);
  }
}

Result<Workload> workload_of(Ctx& ctx, DatabaseId database) { return env_of(ctx).tuning->workload(*env_of(ctx).db, database); }

Status tune_workload(Ctx& ctx) {
  if (ctx.argc() > 2) return wrong_arity(ctx.command);
  std::int64_t shown = kShownWindows;
  if (ctx.argc() == 2) {
    TRY_ASSIGN(given, integer_argument_in(ctx.arg(1), 0, kMostWindows));
    shown = given;
  }
  TRY_ASSIGN(workload, workload_of(ctx, ctx.session.database));
  const WorkloadSummary summary = summarize(workload.windows);
  Reply& reply = ctx.reply;
  reply.map(24);
  reply_field(reply, "database", std::uint64_t{workload.database});
  reply_field(reply, "operations", summary.total.total());
  reply_figures(reply, "mean", summary.mean);
  reply_field(reply, "rho", summary.rho);
  reply_field(reply, "divergence", summary.divergence);
  reply_field(reply, "entries-per-range", summary.entries_per_range);
  reply_field(reply, "operations-per-day", summary.operations_per_day);
  reply_field(reply, "table-entries", workload.table_entries);
  reply_field(reply, "table-bytes", workload.table_bytes);
  reply_field(reply, "cache-miss-ratio", workload.cache_miss_ratio);
  reply_policy(reply, workload.settings.policy);
  reply_field(reply, "page-size", std::uint64_t{workload.settings.page_size});
  reply_field(reply, "memtable-size", workload.settings.memtable_size);
  reply_field(reply, "filter-bits-per-key", workload.settings.filter_bits_per_key);
  reply_field(reply, "filter-memory", workload.settings.filter_memory);
  reply_field(reply, "pages-per-tile", std::uint64_t{workload.settings.pages_per_tile});
  reply_field(reply, "pages-per-tile-now", std::uint64_t{workload.pages_per_tile});
  reply_field(reply, "pages-per-tile-measured", std::uint64_t{workload.measured_pages_per_tile});
  reply_field(reply, "delete-deadline-ms", workload.settings.delete_deadline);
  reply_field(reply, "entries-per-file", workload.entries_per_file);
  reply_field(reply, "write-asymmetry", workload.device.write_asymmetry);
  reply_field(reply, "sequential-cost", workload.device.sequential_cost);
  reply_field(reply, "windows-known", std::uint64_t{workload.windows.size()});
  const std::size_t count = std::min(workload.windows.size(), static_cast<std::size_t>(shown));
  reply.bulk("windows");
  reply.array(count);
  for (const WorkloadWindow& window : std::span(workload.windows).last(count)) {
    reply.map(9);
    reply_field(reply, "start-ms", window.start);
    reply_field(reply, "length-ms", window.length);
    reply_counts(reply, window.counts);
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

constexpr std::size_t kAdviceFields = 13;
/// Writes kAdviceFields fields.
void reply_advice(Reply& reply, const TunerAdvice& advice) {
  reply_field(reply, "layout", Bytes(advice.layout));
  reply_policy(reply, advice.policy);
  reply_field(reply, "memtable-size", advice.memtable_bytes);
  reply_field(reply, "filter-bits-per-key", advice.filter_bits_per_key);
  reply_field(reply, "pages-per-tile", std::uint64_t{advice.pages_per_tile});
  reply_figures(reply, "costs", advice.costs);
  reply_field(reply, "delete-work", advice.delete_work);
  reply_field(reply, "stamp-delete-cost", advice.stamp_delete_cost);
  reply_field(reply, "mean-cost", advice.mean_cost);
  reply_field(reply, "worst-cost", advice.worst_cost);
  reply_field(reply, "write-amplification", advice.write_amplification);
  reply_field(reply, "longest-merge-bytes", advice.longest_merge_bytes);
  reply_field(reply, "transient-space", advice.transient_space);
}

/// Writes a proposal without its settings if they are not worthwhile, so that no client applies them.
void reply_proposal(Reply& reply, Bytes name, DatabaseId database, const std::optional<Proposal>& proposal, bool compared) {
  reply.bulk(name);
  if (!proposal) return reply.null();
  const bool given = proposal->worthwhile || !compared;
  reply.map(given ? 4 + kAdviceFields : 5);
  reply_field(reply, "verdict", Bytes(proposal->verdict));
  reply_field(reply, "worthwhile", std::uint64_t{proposal->worthwhile});
  reply_field(reply, "saved-per-day", proposal->saved_per_day);
  if (!given) {
    reply_field(reply, "mean-cost", proposal->advice.mean_cost);
    reply_field(reply, "worst-cost", proposal->advice.worst_cost);
    return;
  }
  reply_advice(reply, proposal->advice);
  const auto config = database_config(database, proposal->advice);
  reply.bulk("config");
  reply.map(config.size());
  for (const auto& [key, value] : config) reply_field(reply, key, Bytes(value));
}

/// Parses [RHO r] [WORKLOAD z0 z1 q w] [MEMORY bytes], in any order.
Status advise_options(Ctx& ctx, RecommendOptions* options) {
  for (ArgCursor cursor(ctx.args, 1); !cursor.done();) {
    if (cursor.take_word("rho") && cursor.left() >= 1) {
      TRY_ASSIGN(rho, float_argument(cursor.take()));
      options->rho = static_cast<double>(rho);
    } else if (cursor.take_word("memory") && cursor.left() >= 1) {
      TRY_ASSIGN(bytes, integer_argument_in(cursor.take(), 1, std::int64_t{1} << 50));
      options->memory_bytes = static_cast<double>(bytes);
    } else if (cursor.take_word("workload") && cursor.left() >= 4) {
      std::array<double, 4> shares{};
      for (double& share : shares) {
        TRY_ASSIGN(value, float_argument(cursor.take()));
        share = static_cast<double>(value);
      }
      options->workload = OperationFigures{shares[0], shares[1], shares[2], shares[3]};
    } else {
      return syntax_error();
    }
  }
  return Status::ok();
}

Status tune_advise(Ctx& ctx) {
  RecommendOptions options;
  TRY(advise_options(ctx, &options));
  TRY_ASSIGN(workload, workload_of(ctx, ctx.session.database));
  const auto advice = recommend(workload, options);
  if (!advice.is_ok()) return reply_error("ERR " + std::string(advice.status().message()));
  env_of(ctx).tuning->keep(workload.database, {*advice, env_of(ctx).now()});
  Reply& reply = ctx.reply;
  reply.map(10);
  reply_field(reply, "verdict", Bytes(advice->verdict));
  reply_field(reply, "database", std::uint64_t{workload.database});
  reply_figures(reply, "workload", advice->question.workload);
  reply_field(reply, "rho", advice->question.rho);
  reply_field(reply, "memory", advice->question.memory_bytes);
  reply_field(reply, "operations-per-day", advice->summary.operations_per_day);
  reply_field(reply, "apply-cost", advice->judged() != nullptr ? advice->judged()->change_cost : 0);
  reply.bulk("today");
  if (advice->today) {
    reply.map(kAdviceFields);
    reply_advice(reply, *advice->today);
  } else {
    reply.null();
  }
  reply_proposal(reply, "nominal", workload.database, advice->nominal, advice->today.has_value());
  reply_proposal(reply, "robust", workload.database, advice->robust, advice->today.has_value());
  return Status::ok();
}

/// Options of TUNE.APPLY: [DB n] [CHANGES], in any order.
struct ApplyOptions {
  DatabaseId database = 0;
  bool changes = false;
};

Result<ApplyOptions> apply_options(Ctx& ctx) {
  ApplyOptions options{.database = ctx.session.database};
  for (ArgCursor cursor(ctx.args, 1); !cursor.done();) {
    Bytes number;
    if (cursor.take_option("db", &number)) {
      TRY_ASSIGN(database, integer_argument(number));
      if (database < 0 || database >= std::int64_t{ctx.server().databases()}) return reply_error("ERR DB index is out of range");
      options.database = static_cast<DatabaseId>(database);
    } else if (cursor.take_word("changes")) {
      options.changes = true;
    } else {
      return syntax_error();
    }
  }
  return options;
}

/// Returns the advice to apply: the last one of TUNE.ADVISE, or a new one. Takes the robust tuning if there is one. If the advice
/// is to keep the settings, fails with that verdict.
Result<TunerAdvice> advice_to_apply(Ctx& ctx, DatabaseId database) {
  TRY_ASSIGN(workload, workload_of(ctx, database));
  auto known = env_of(ctx).tuning->advice(database, env_of(ctx).now(), settings_now(workload));
  if (!known) {
    auto advice = recommend(workload, {});
    if (!advice.is_ok()) return reply_error("ERR " + std::string(advice.status().message()));
    known = std::move(advice).value();
  }
  const std::optional<Proposal>& chosen = known->robust ? known->robust : known->nominal;
  const bool given = chosen && (chosen->worthwhile || !known->today);
  if (!given) return reply_error("ERR " + known->verdict);
  return chosen->advice;
}

Status tune_apply(Ctx& ctx) {
  TRY_ASSIGN(options, apply_options(ctx));
  TRY(env_of(ctx).db->write_status());  // while merges cannot write, the tree cannot take another shape
  TRY_ASSIGN(advice, advice_to_apply(ctx, options.database));
  TRY_ASSIGN(changes, apply_advice(config_access(ctx.server()), options.database, advice));
  if (changes.empty()) return reply_error("ERR keep the settings: the configuration has the advised values already");
  env_of(ctx).tuning->changed(options.database, false);
  ctx.server().log_change("TUNE.APPLY, database " + std::to_string(options.database) + ": " + changes_text(changes));
  if (!options.changes) return ctx.reply.ok(), Status::ok();
  ctx.reply.map(changes.size());
  for (const SettingChange& change : changes) {
    ctx.reply.bulk(change.key);
    ctx.reply.array(2);
    if (change.from.empty()) {
      ctx.reply.null();
    } else {
      ctx.reply.bulk(change.from);
    }
    ctx.reply.bulk(change.to);
  }
  return Status::ok();
}

constexpr ArgDoc kApplyArguments[] = {
    {.name = "database", .type = Type::kInteger, .token = "DB", .flags = ArgDoc::kOptional},
    {.name = "changes", .type = Type::kPureToken, .token = "CHANGES", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kWorkloadArguments[] = {
    {.name = "windows", .type = Type::kInteger, .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kShares[] = {
    {.name = "empty-reads", .type = Type::kDouble},
    {.name = "reads", .type = Type::kDouble},
    {.name = "ranges", .type = Type::kDouble},
    {.name = "writes", .type = Type::kDouble},
};
constexpr ArgDoc kAdviseArguments[] = {
    {.name = "rho", .type = Type::kDouble, .token = "RHO", .flags = ArgDoc::kOptional},
    {.name = "workload", .type = Type::kBlock, .token = "WORKLOAD", .flags = ArgDoc::kOptional, .arguments = kShares},
    {.name = "bytes", .type = Type::kInteger, .token = "MEMORY", .flags = ArgDoc::kOptional},
};

constexpr CommandSpec kTuning[] = {
    {.name = "tune.workload",
     .arity = at_least(1),
     .flags = kReadOnly | kAdmin | kOffload,
     .run = tune_workload,
     .since = "0.1.0",
     .complexity = "O(N) where N is the number of windows and files.",
     .summary =
         "Shows the operations of the current database by kind: their mean mix, how far it moves, and the newest windows of "
         "its history.",
     .group = Group::kExtension,
     .arguments = kWorkloadArguments},
    {.name = "tune.advise",
     .arity = at_least(1),
     .flags = kReadOnly | kAdmin | kNoScript | kNoMulti | kOffload | kLong,
     .run = tune_advise,
     .since = "0.1.0",
     .complexity = "O(N) where N is the number of tunings that are tried: up to half a second.",
     .summary = "Advises settings for the workload of the current database, with the costs of operations now and then, and says "
                "whether a change is worth it.",
     .group = Group::kExtension,
     .arguments = kAdviseArguments},
    {.name = "tune.apply",
     .arity = at_least(1),
     .flags = kAdmin | kNoScript | kNoMulti | kOffload | kLong,
     .run = tune_apply,
     .since = "0.1.0",
     .complexity = "O(N) where N is the number of tunings that are tried: up to half a second, unless TUNE.ADVISE has just run.",
     .summary = "Applies the last advice of TUNE.ADVISE, or a new one, to a database while the server runs.",
     .group = Group::kExtension,
     .arguments = kApplyArguments},
};

}  // namespace

std::span<const CommandSpec> tuning_commands() { return kTuning; }

}  // namespace ebbtide
