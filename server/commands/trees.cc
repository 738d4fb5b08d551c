// TREE.*: shows the tree of the current database, and controls its maintenance.
#include <algorithm>
#include <charconv>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/index.h>
#include <engine/policies.h>
#include "commands/families.h"
#include "commands/policy_docs.h"
#include "commands/range_argument.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "index/index_catalog.h"
#include "store/key_codec.h"

namespace ebbtide {
namespace {

using Type = ArgDoc::Type;

void reply_field(Reply& reply, Bytes name, std::uint64_t value) {
  reply.bulk(name);
  reply.integer(static_cast<std::int64_t>(value));
}

void reply_run(Reply& reply, const RunInfo& run) {
  reply.map(9);
  reply_field(reply, "run", run.id);
  reply_field(reply, "level", static_cast<std::uint64_t>(run.level));
  reply_field(reply, "files", run.files);
  reply_field(reply, "bytes", run.bytes);
  reply_field(reply, "entries", run.entries);
  reply_field(reply, "tombstones", run.tombstones);
  reply_field(reply, "range-tombstones", run.range_tombstones);
  reply_field(reply, "filter-bits", run.filter_bits);
  reply_field(reply, "oldest-tombstone-birth", run.oldest_tombstone_birth);
}

void reply_filter(Reply& reply, const FilterInfo& filter) {
  reply.map(7);
  reply_field(reply, "level", static_cast<std::uint64_t>(filter.level));
  reply.bulk("bits-per-key");
  reply.double_(filter.entries == 0 ? 0 : static_cast<double>(filter.bits) / static_cast<double>(filter.entries));
  reply.bulk("false-positive-ratio-expected");
  reply.double_(filter.expected);
  reply.bulk("false-positive-ratio-observed");
  reply.double_(filter.observed());
  reply_field(reply, "lookups-denied", filter.denied);
  reply_field(reply, "lookups-in-vain", filter.in_vain);
  reply_field(reply, "lookups-found", filter.found);
}

void reply_quarantined(Reply& reply, const QuarantinedFile& file) {
  reply.map(3);
  reply_field(reply, "file", file.file);
  reply_field(reply, "bytes", file.bytes);
  reply.bulk("damage");
  reply.bulk(file.damage);
}

/// Returns the tree of the database, and those of its indexes and of their catalog; only trees that exist.
std::vector<DatabaseId> trees_of(const Ctx& ctx) {
  const DatabaseId database = ctx.session.database;
  std::vector<DatabaseId> out;
  if (ctx.view.has_tree()) out.push_back(database);
  const IndexCatalog* const catalog = env_of(ctx).indexes;
  if (catalog == nullptr || catalog->of(database)->empty()) return out;
  for (const auto& [name, index] : *catalog->of(database)) {
    if (env_of(ctx).db->lease(index.tree(database)).has_tree()) out.push_back(index.tree(database));
  }
  if (env_of(ctx).db->lease(index_tree(database, kCatalog)).has_tree()) out.push_back(index_tree(database, kCatalog));
  return out;
}

Result<TreeInfo> info_of(const Ctx& ctx) {
  TreeInfo info;
  info.database = ctx.session.database;
  if (ctx.argc() == 1) {
    if (ctx.view.has_tree()) return env_of(ctx).db->tree_info(ctx.session.database);
    return info;
  }
  ArgCursor cursor(ctx.args, 1);
  Bytes name;
  if (!cursor.take_option("INDEX", &name) || !cursor.done()) return syntax_error();
  const auto indexes = env_of(ctx).indexes->of(ctx.session.database);
  const auto at = indexes->find(name);
  if (at == indexes->end()) return reply_error("ERR there is no index '" + std::string(shown(name)) + "'");
  TRY_ASSIGN(known, env_of(ctx).db->tree_info(at->second.tree(ctx.session.database)));
  known.database = ctx.session.database;
  return known;
}

Status tree_info(Ctx& ctx) {
  TRY_ASSIGN(info, info_of(ctx));
  RunInfo total;
  int levels = 0;
  std::uint64_t last = 0;  // bytes of the last level
  for (const RunInfo& run : info.runs) {
    total.files += run.files;
    total.bytes += run.bytes;
    total.entries += run.entries;
    total.tombstones += run.tombstones;
    total.range_tombstones += run.range_tombstones;
    if (run.level + 1 > levels) last = 0;
    levels = std::max(levels, run.level + 1);
    if (run.level + 1 == levels) last += run.bytes;
  }
  Reply& reply = ctx.reply;
  reply.map(23);
  reply_field(reply, "database", info.database);
  reply_field(reply, "tree", info.tree);
  reply.bulk("policy");
  reply.bulk(info.policy);
  reply_field(reply, "levels", static_cast<std::uint64_t>(levels));
  reply_field(reply, "files", total.files);
  reply_field(reply, "bytes", total.bytes);
  reply_field(reply, "entries", total.entries);
  reply_field(reply, "tombstones", total.tombstones);
  reply_field(reply, "range-tombstones", total.range_tombstones);
  reply_field(reply, "secondary-records", info.records);
  reply_field(reply, "oldest-secondary-record-birth", info.oldest_record_birth);
  reply_field(reply, "memtable-bytes", info.memtable_bytes);
  reply_field(reply, "memtable-entries", info.memtable_entries);
  reply_field(reply, "frozen-memtables", info.frozen_memtables);
  reply_field(reply, "pending-compaction-bytes", info.pending_compaction_bytes);
  reply_field(reply, "estimated-keys", info.estimated_keys);
  reply_field(reply, "delete-deadline-ms", info.delete_deadline);
  reply_field(reply, "oldest-delete-birth", info.oldest_obligation);
  reply_field(reply, "oldest-delete-deadline", info.oldest_obligation_deadline);
  reply.bulk("space-amplification");
  reply.double_(last == 0 ? 0 : static_cast<double>(total.bytes) / static_cast<double>(last));
  reply.bulk("runs");
  reply.array(info.runs.size());
  for (const RunInfo& run : info.runs) reply_run(reply, run);
  reply.bulk("filters");
  reply.array(info.filters.size());
  for (const FilterInfo& filter : info.filters) reply_filter(reply, filter);
  reply.bulk("quarantined");
  reply.array(info.quarantined.size());
  for (const QuarantinedFile& file : info.quarantined) reply_quarantined(reply, file);
  return Status::ok();
}

Status tree_flush(Ctx& ctx) {
  for (const DatabaseId tree : trees_of(ctx)) TRY(env_of(ctx).db->flush(tree));
  ctx.reply.ok();
  return Status::ok();
}

Status tree_compact(Ctx& ctx) {
  if (ctx.argc() != 1 && ctx.argc() != 3) return syntax_error();
  if (ctx.argc() == 1) {
    for (const DatabaseId tree : trees_of(ctx)) TRY(env_of(ctx).db->compact(tree, {}));
    ctx.reply.ok();
    return Status::ok();
  }
  TRY_ASSIGN(range, range_argument(ctx, 1));
  if (ctx.view.has_tree() && !is_empty(range)) TRY(env_of(ctx).db->compact(ctx.session.database, range));
  ctx.reply.ok();
  return Status::ok();
}

/// Returns the value of a policy key of the current database's tree; "" if it is not set.
std::string policy_key(const Ctx& ctx, const std::string& name) {
  const std::string key = "databases." + std::to_string(ctx.session.database) + ".policy." + name;
  const Bytes pattern = key;
  std::vector<std::pair<std::string, std::string>> items;
  ctx.server().config_get(std::span(&pattern, 1), &items);
  return items.empty() ? std::string() : items.front().second;
}

void show_policy(Ctx& ctx) {
  const std::string name = policy_key(ctx, "name");
  const std::vector<PolicyParameterInfo> parameters = policy_parameters(name);
  ctx.reply.map(1 + parameters.size());
  ctx.reply.bulk("name");
  ctx.reply.bulk(name);
  for (const PolicyParameterInfo& parameter : parameters) {
    std::string value = policy_key(ctx, parameter.name);
    if (value.empty()) {
      char text[32];
      value.assign(text, std::to_chars(text, text + sizeof(text), parameter.fallback).ptr);
    }
    ctx.reply.bulk(parameter.name);
    ctx.reply.bulk(value);
  }
}

/// Changes the policy by CONFIG SET of `databases.<n>.policy`, so that a later CONFIG SET or CONFIG REWRITE keeps the change.
Status tree_policy(Ctx& ctx) {
  if (ctx.argc() == 1) {
    show_policy(ctx);
    return Status::ok();
  }
  if (ctx.argc() % 2 == 1) return syntax_error();
  const std::string prefix = "databases." + std::to_string(ctx.session.database) + ".policy.";
  std::vector<std::pair<std::string, Bytes>> changes = {{prefix + "name", ctx.arg(1)}};
  for (std::size_t i = 2; i < ctx.argc(); i += 2) changes.emplace_back(prefix + std::string(ctx.arg(i)), ctx.arg(i + 1));
  std::vector<std::pair<Bytes, Bytes>> items(changes.begin(), changes.end());
  TRY(ctx.server().config_set(items));
  ctx.reply.ok();
  return Status::ok();
}

/// The longest pause that TREE.PAUSE accepts, in ms. Without an argument, the pause lasts until TREE.RESUME.
constexpr std::int64_t kMaxPauseMs = std::int64_t{7} * 24 * 3600 * 1000;

Status tree_pause(Ctx& ctx) {
  if (ctx.argc() > 2) return wrong_arity(ctx.command);
  std::int64_t ms = 0;
  if (ctx.argc() == 2) {
    TRY_ASSIGN(given, integer_argument(ctx.arg(1)));
    if (given < 1 || given > kMaxPauseMs) {
      return reply_error("ERR a pause of " + std::to_string(given) + " ms is not allowed; allowed: 1 to " +
                         std::to_string(kMaxPauseMs) + ", or none for no limit");
    }
    ms = given;
  }
  ctx.server().pause_compactions(static_cast<std::uint64_t>(ms));
  ctx.reply.ok();
  return Status::ok();
}

Status tree_resume(Ctx& ctx) {
  ctx.server().resume_compactions();
  ctx.reply.ok();
  return Status::ok();
}

Status tree_verify(Ctx& ctx) {
  VerifyReport report;
  for (const DatabaseId tree : trees_of(ctx)) {
    TRY_ASSIGN(found, env_of(ctx).db->verify(tree));
    report.files += found.files;
    report.pages += found.pages;
    report.entries += found.entries;
    report.bytes += found.bytes;
    report.errors.insert(report.errors.end(), found.errors.begin(), found.errors.end());
  }
  Reply& reply = ctx.reply;
  reply.map(5);
  reply_field(reply, "files", report.files);
  reply_field(reply, "pages", report.pages);
  reply_field(reply, "entries", report.entries);
  reply_field(reply, "bytes", report.bytes);
  reply.bulk("errors");
  reply.array(report.errors.size());
  for (const std::string& error : report.errors) reply.bulk(error);
  return Status::ok();
}

constexpr ArgDoc kRangeArguments[] = {
    {.name = "start"},
    {.name = "end"},
};
constexpr ArgDoc kInfoArguments[] = {
    {.name = "index", .token = "INDEX", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kPauseArguments[] = {
    {.name = "milliseconds", .type = Type::kInteger, .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kPolicyChangeArguments[] = {
    {.name = "name"},
    kPolicyParameters,
};
constexpr ArgDoc kPolicyArguments[] = {
    {.name = "change", .type = Type::kBlock, .flags = ArgDoc::kOptional, .arguments = kPolicyChangeArguments},
};
constexpr ArgDoc kCompactArguments[] = {
    {.name = "range", .type = Type::kBlock, .flags = ArgDoc::kOptional, .arguments = kRangeArguments},
};

constexpr auto kByHand = kAdmin | kNoScript | kNoMulti | kOffload | kLong;
constexpr auto kOwn = Group::kExtension;

constexpr CommandSpec kTrees[] = {
    {.name = "tree.info",
     .arity = at_least(1),
     .flags = kReadOnly | kAdmin | kOffload,
     .run = tree_info,
     .since = "0.1.0",
     .complexity = "O(N) where N is the number of files.",
     .summary = "Describes the tree of the current database, or of an index.",
     .group = kOwn,
     .arguments = kInfoArguments},
    {.name = "tree.flush",
     .arity = exactly(1),
     .flags = kByHand,
     .run = tree_flush,
     .since = "0.1.0",
     .complexity = "O(N) where N is the size of the memtables.",
     .summary = "Writes the memtables of the current database and its indexes to files and waits for it.",
     .group = kOwn},
    {.name = "tree.compact",
     .arity = at_least(1),
     .flags = kByHand,
     .run = tree_compact,
     .since = "0.1.0",
     .complexity = "O(N) where N is the size of the range.",
     .summary = "Merges everything in a range of keys of the current database into one run and waits for it. Without a range, "
                "merges its indexes, "
                "too.",
     .group = kOwn,
     .arguments = kCompactArguments},
    {.name = "tree.pause",
     .arity = at_least(1),
     .flags = kAdmin | kNoScript,
     .run = tree_pause,
     .since = "0.1.0",
     .complexity = "O(1)",
     .summary = "Stops compactions of all databases for some milliseconds, or until TREE.RESUME. Flushes and work for delete "
                "deadlines go on.",
     .group = kOwn,
     .arguments = kPauseArguments},
    {.name = "tree.resume",
     .arity = exactly(1),
     .flags = kAdmin | kNoScript,
     .run = tree_resume,
     .since = "0.1.0",
     .complexity = "O(1)",
     .summary = "Resumes compactions after TREE.PAUSE.",
     .group = kOwn},
    {.name = "tree.policy",
     .arity = at_least(1),
     .flags = kAdmin | kNoScript | kNoMulti | kOffload,
     .run = tree_policy,
     .since = "0.1.0",
     .complexity = "O(1)",
     .summary = "Shows the merge policy of the current database and its parameters, or changes them: the tree takes the new "
                "policy's shape with its next merges.",
     .group = kOwn,
     .arguments = kPolicyArguments},
    {.name = "tree.verify",
     .arity = exactly(1),
     .flags = kByHand,
     .run = tree_verify,
     .since = "0.1.0",
     .complexity = "O(N) where N is the size of the database.",
     .summary = "Reads every block of the current database and its indexes, and checks checksums, order and bounds.",
     .group = kOwn},
};

}  // namespace

std::span<const CommandSpec> tree_commands() { return kTrees; }

}  // namespace ebbtide
