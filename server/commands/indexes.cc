// INDEX.*: indexes over one field of the hashes whose keys begin with a prefix.
//
// INDEX.CREATE commits the definition. From then on, every write maintains the index (index/index_maintenance.h). Records that
// existed before are indexed in the background (index/index_builder.h).
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <engine/index.h>
#include <engine/policies.h>
#include <engine/spatial.h>

#include "commands/families.h"
#include "commands/index_access.h"
#include "commands/policy_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/key_locks.h"
#include "index/index_catalog.h"
#include "store/key_codec.h"
#include "store/numbers.h"
#include "store/zsets.h"

namespace ebbtide {
namespace {

using Type = ArgDoc::Type;

constexpr std::size_t kMostNameBytes = 64;
constexpr std::size_t kMostPrefixBytes = 1024;

IndexCatalog& catalog_of(const Ctx& ctx) { return *env_of(ctx).indexes; }

Status no_index(Bytes name) { return reply_error("ERR there is no index '" + std::string(shown(name)) + "'"); }

/// Adds the definition that the batch has written to the catalog. Dispatch calls this after the commit, while all locks are held.
void take_definition(Ctx& ctx) {
  std::size_t cursor = 0;
  WriteBatch::Op op;
  ctx.batch.next_op(&cursor, &op);
  auto definition = IndexDefinition::decode(op.key, op.value);
  if (!definition.is_ok()) return;
  env_of(ctx).locks->enable();
  (void)set_index_options(*env_of(ctx).db, ctx.session.database, *definition);
  catalog_of(ctx).set(ctx.session.database, std::move(definition).value());
}

}  // namespace

// --- functions that SPATIAL.* uses, too

Result<IndexDefinition> find_index(const Ctx& ctx, Bytes name) {
  const auto indexes = catalog_of(ctx).of(ctx.session.database);
  const auto at = indexes->find(name);
  if (at == indexes->end()) return no_index(name);
  return at->second;
}

Status check_index_name(Bytes name) {
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!name.empty() && name.size() <= kMostNameBytes && printable) return Status::ok();
  return reply_error("ERR the name of an index has 1 to " + std::to_string(kMostNameBytes) + " printable ASCII characters");
}

Status check_index_text(Bytes prefix_or_field) {
  if (prefix_or_field.size() <= kMostPrefixBytes) return Status::ok();
  return reply_error("ERR prefix and field of an index have at most " + std::to_string(kMostPrefixBytes) + " bytes each");
}

Result<PolicySettings> policy_argument(Bytes name, ArgCursor* cursor) {
  PolicySettings out;
  out.name = name;
  out.parameters.clear();
  const std::vector<PolicyParameterInfo> known = policy_parameters(name);
  for (bool more = true; more;) {
    more = false;
    for (const PolicyParameterInfo& parameter : known) {
      Bytes value;
      if (!cursor->take_option(parameter.name, &value)) continue;
      const auto number = parse_double(value);
      if (!number) return reply_error("ERR value is not a valid float");
      out.parameters[parameter.name] = *number;
      more = true;
    }
  }
  if (const Status status = validate(out); !status.is_ok()) return reply_error("ERR " + std::string(status.message()));
  return out;
}

Result<std::string> user_key_of(Bytes engine_key) {
  std::string buffer;
  TRY_ASSIGN(key, unescape_key(engine_key, &buffer));
  return std::string(key);
}

Status create_index(Ctx& ctx, IndexDefinition definition) {
  definition.building_from = "";
  const auto indexes = catalog_of(ctx).of(ctx.session.database);
  if (indexes->contains(definition.name)) return reply_error("ERR there is an index '" + definition.name + "' already");
  const auto used = [&](std::uint32_t index) {
    return std::any_of(indexes->begin(), indexes->end(), [index](const auto& known) { return known.second.index == index; });
  };
  do {
    ++definition.index;
  } while (used(definition.index));
  if (definition.index > kMostIndexes) {
    return reply_error("ERR the database has " + std::to_string(kMostIndexes) + " indexes already");
  }
  ctx.batch.end_command();  // no key changes
  put_definition(&ctx.batch, ctx.session.database, definition);
  // This write makes the index's tree. So if the tree is missing later, a repair has dropped it (IndexCatalog::load).
  ctx.batch.del(definition.tree(ctx.session.database), build_position_key("").value_or(""));
  ctx.after_commit = take_definition;
  ctx.reply.ok();
  return Status::ok();
}

Status drop_index(Ctx& ctx) {
  TRY_ASSIGN(definition, find_index(ctx, ctx.arg(1)));
  ctx.batch.end_command();
  delete_definition(&ctx.batch, ctx.session.database, definition.name);
  ctx.batch.flush_database(definition.tree(ctx.session.database));
  ctx.after_commit = [](Ctx& done) { catalog_of(done).remove(done.session.database, std::string(done.arg(1))); };
  ctx.reply.ok();
  return Status::ok();
}

namespace {

std::string state_of(const Ctx& ctx, const IndexDefinition& index) {
  if (!index.building_from) return "complete";
  const KeyRange all = index.records();
  const Db& db = *env_of(ctx).db;
  const std::uint64_t records = std::max<std::uint64_t>(db.estimate_keys(ctx.session.database, all), 1);
  const KeyRange done{all.start, std::max(all.start, *index.building_from)};
  const std::uint64_t built = done.start == done.end ? 0 : db.estimate_keys(ctx.session.database, done);
  return "building, " + std::to_string(std::min<std::uint64_t>(built * 100 / records, 99)) + " %";
}

/// The names of SkipReason in replies.
constexpr std::array<const char*, kSkipReasons> kReasons = {"other-type", "no-field", "too-long", "not-a-number", "not-a-place"};

void reply_skipped(const Ctx& ctx, Bytes name, const SkippedRecords& records) {
  ctx.reply.bulk(name);
  ctx.reply.map(kSkipReasons);
  for (std::size_t reason = 0; reason < kSkipReasons; ++reason) {
    ctx.reply.bulk(kReasons[reason]);
    ctx.reply.integer(static_cast<std::int64_t>(records[reason]));
  }
}

}  // namespace

Status describe_index(const Ctx& ctx, const IndexDefinition& index, std::size_t source_fields,
                      const std::function<void()>& add_source) {
  TRY_ASSIGN(prefix, user_key_of(index.prefix));
  const DatabaseId tree = index.tree(ctx.session.database);
  TRY_ASSIGN(about, env_of(ctx).db->tree_info(tree));
  std::uint64_t bytes = 0;
  for (const RunInfo& run : about.runs) bytes += run.bytes;
  const std::string failure = catalog_of(ctx).failure_of(tree);
  ctx.reply.map((failure.empty() ? 8 : 9) + source_fields);
  const auto text = [&](Bytes name, Bytes value) {
    ctx.reply.bulk(name);
    ctx.reply.bulk(value);
  };
  text("name", index.name);
  text("prefix", prefix);
  add_source();
  text("state", state_of(ctx, index));
  ctx.reply.bulk("entries");
  ctx.reply.integer(static_cast<std::int64_t>(env_of(ctx).db->estimate_keys(tree, {})));
  ctx.reply.bulk("table-bytes");
  ctx.reply.integer(static_cast<std::int64_t>(bytes));
  text("policy", about.policy);
  reply_skipped(ctx, "skipped", index.skipped);
  reply_skipped(ctx, "skipped-writes", catalog_of(ctx).skipped_writes(tree));
  if (!failure.empty()) text("error", failure);
  return Status::ok();
}

Status check_complete(const Ctx& ctx, const IndexDefinition& index) {
  const ReadView catalog = env_of(ctx).db->lease(index_tree(ctx.session.database, kCatalog));
  Found found;
  const Status status = catalog.get({index.name, hash_key(index.name)}, &found);
  if (status.is_not_found()) return no_index(index.name);
  TRY(status);
  TRY_ASSIGN(now, IndexDefinition::decode(index.name, found.value));
  if (!index.building_from && now == index) return Status::ok();
  return reply_error("ERR the index '" + index.name + "' is being built: " + (place_order(index.kind) ? "SPATIAL" : "INDEX") +
                     ".INFO shows how far it is");
}

namespace {

Result<IndexDefinition> parse_definition(const Ctx& ctx) {
  IndexDefinition out;
  TRY(check_index_name(ctx.arg(1)));
  out.name = ctx.arg(1);
  std::optional<Bytes> prefix, field;
  ArgCursor cursor(ctx.args, 2);
  while (!cursor.done()) {
    Bytes value;
    if (!prefix && cursor.take_option("PREFIX", &value)) {
      prefix = value;
    } else if (!field && cursor.take_option("FIELD", &value)) {
      field = value;
    } else if (!out.policy && cursor.take_option("POLICY", &value)) {
      TRY_ASSIGN(policy, policy_argument(value, &cursor));
      out.policy = std::move(policy);
    } else if (cursor.take_word("NUMBER")) {
      out.kind = IndexKind::kNumber;
    } else {
      return syntax_error();
    }
  }
  if (!prefix || !field) return syntax_error();
  for (const Bytes text : {*prefix, *field}) TRY(check_index_text(text));
  out.prefix = escaped_key(*prefix);
  out.source = *field;
  return out;
}

Status create(Ctx& ctx) {
  TRY_ASSIGN(definition, parse_definition(ctx));
  return create_index(ctx, std::move(definition));
}

Status list(Ctx& ctx) {
  const auto indexes = catalog_of(ctx).of(ctx.session.database);
  ctx.reply.array(indexes->size());
  for (const auto& [name, index] : *indexes) ctx.reply.bulk(name);
  return Status::ok();
}

/// Returns the definition of the index that argument 1 names. Fails if it is an index of places.
Result<IndexDefinition> find_values(const Ctx& ctx) {
  TRY_ASSIGN(index, find_index(ctx, ctx.arg(1)));
  if (place_order(index.kind))
    return reply_error("ERR '" + index.name + "' is an index of places: use SPATIAL.SEARCH and SPATIAL.INFO");
  return index;
}

Status info(Ctx& ctx) {
  TRY_ASSIGN(index, find_values(ctx));
  return describe_index(ctx, index, 2, [&] {
    ctx.reply.bulk("field");
    ctx.reply.bulk(index.source);
    ctx.reply.bulk("order");
    ctx.reply.bulk(index.kind == IndexKind::kNumber ? "number" : "text");
  });
}

/// Parses both ends of a range: in the form of ZRANGEBYLEX or, for an index of numbers, of ZRANGEBYSCORE. Returns nullopt if the
/// range is empty.
Result<std::optional<KeyRange>> range_of(const IndexDefinition& index, Bytes min, Bytes max) {
  std::optional<IndexBound> low, high;
  if (index.kind == IndexKind::kNumber) {
    const auto from = parse_score_bound(min), to = parse_score_bound(max);
    if (!from || !to) return reply_error("ERR min or max is not a float");
    low = IndexBound{ordered_number(from->score), !from->excluded};
    high = IndexBound{ordered_number(to->score), !to->excluded};
  } else {
    const auto from = parse_lex_bound(min), to = parse_lex_bound(max);
    if (!from || !to) return reply_error("ERR min or max not valid string range item");
    using Kind = LexBound::Kind;
    if (from->kind == Kind::kHighest || to->kind == Kind::kLowest) return std::optional<KeyRange>();
    if (from->kind == Kind::kMember) low = IndexBound{std::string(from->member), !from->excluded};
    if (to->kind == Kind::kMember) high = IndexBound{std::string(to->member), !to->excluded};
  }
  KeyRange range = index_range(low, high);
  if (is_empty(range)) return std::optional<KeyRange>();
  return std::optional(std::move(range));
}

struct RangeOptions {
  std::uint64_t offset = 0, count = ~std::uint64_t{0};
  bool with_values = false;
};

Result<RangeOptions> range_options(const Ctx& ctx) {
  RangeOptions out;
  ArgCursor cursor(ctx.args, 4);
  while (!cursor.done()) {
    if (cursor.left() >= 3 && cursor.take_word("LIMIT")) {
      TRY_ASSIGN(offset, integer_argument(cursor.take()));
      TRY_ASSIGN(count, integer_argument(cursor.take()));
      if (offset < 0) return reply_error("ERR LIMIT's offset can't be negative");
      out.offset = static_cast<std::uint64_t>(offset);
      if (count >= 0) out.count = static_cast<std::uint64_t>(count);  // as in ZRANGE, a negative count has no limit
    } else if (cursor.take_word("WITHVALUES")) {
      out.with_values = true;
    } else {
      return syntax_error();
    }
  }
  return out;
}

std::string value_text(const IndexDefinition& index, std::string value) {
  if (index.kind != IndexKind::kNumber) return value;
  char text[64];
  return {text, format_double(number_of(value), text)};
}

Status range(Ctx& ctx) {
  TRY_ASSIGN(index, find_values(ctx));
  TRY_ASSIGN(options, range_options(ctx));
  TRY_ASSIGN(bounds, range_of(index, ctx.arg(2), ctx.arg(3)));
  const ReadView lease = env_of(ctx).db->lease(index.tree(ctx.session.database));
  TRY(check_complete(ctx, index));
  std::vector<std::string> replies;
  FoundCharge charge(ctx);
  std::uint64_t bytes = 0;
  if (bounds && lease.has_tree()) {
    IteratorOptions walk_options;
    walk_options.bounds = *bounds;
    const auto walk = env_of(ctx).db->iterate(lease, walk_options);
    std::uint64_t place = 0;
    std::string value;
    for (walk->seek_to_first(); walk->valid() && !ctx.is_cancelled(); walk->next(), ++place) {
      if (place < options.offset) continue;
      if (place - options.offset >= options.count) break;
      Bytes record;
      if (!split_index_entry(walk->key(), &value, &record)) return Status::corruption("an entry of an index is damaged");
      TRY_ASSIGN(key, user_key_of(record));
      const std::uint64_t more = key.size() + (options.with_values ? value.size() : 0) + sizeof(std::string);
      TRY(charge.add(more));
      bytes += more;
      if (replies.size() >= kMostIndexReplies) return reply_error("ERR the range has more than a million records: use LIMIT");
      replies.push_back(std::move(key));
      if (options.with_values) replies.push_back(value_text(index, std::move(value)));
    }
    TRY(walk->status());
  }
  TRY(ctx.reserve(bytes));
  ctx.reply.array(replies.size());
  for (const std::string& each : replies) ctx.reply.bulk(each);
  return Status::ok();
}

constexpr ArgDoc kName[] = {{.name = "name"}};
constexpr ArgDoc kCreateArguments[] = {
    {.name = "name"},
    {.name = "prefix", .token = "PREFIX"},
    {.name = "field", .token = "FIELD"},
    {.name = "number", .type = Type::kPureToken, .token = "NUMBER", .flags = ArgDoc::kOptional},
    kPolicyOption,
};
constexpr ArgDoc kLimit[] = {
    {.name = "offset", .type = Type::kInteger},
    {.name = "count", .type = Type::kInteger},
};
constexpr ArgDoc kRangeArguments[] = {
    {.name = "name"},
    {.name = "min"},
    {.name = "max"},
    {.name = "limit", .type = Type::kBlock, .token = "LIMIT", .flags = ArgDoc::kOptional, .arguments = kLimit},
    {.name = "withvalues", .type = Type::kPureToken, .token = "WITHVALUES", .flags = ArgDoc::kOptional},
};

constexpr auto kChange = kWrite | kDangerous | kLockAll | kNoMulti | kNoScript | kOnLoop;
constexpr auto kOwn = Group::kExtension;

constexpr CommandSpec kIndexes[] = {
    {.name = "index.create",
     .arity = at_least(6),
     .flags = kChange | kDenyOom,
     .run = create,
     .since = "0.2.0",
     .complexity = "O(1); the records that exist are indexed in the background.",
     .summary = "Creates an index over a field of the hashes whose keys begin with a prefix. Existing records are indexed in the "
                "background.",
     .group = kOwn,
     .arguments = kCreateArguments,
     .extra_acl = "@keyspace",
     .scope = KeyScope::kAll},
    {.name = "index.drop",
     .arity = exactly(2),
     .flags = kChange,
     .run = drop_index,
     .since = "0.2.0",
     .complexity = "O(1)",
     .summary = "Removes an index and its files.",
     .group = kOwn,
     .arguments = kName,
     .extra_acl = "@keyspace",
     .scope = KeyScope::kAll},
    {.name = "index.list",
     .arity = exactly(1),
     .flags = kReadOnly | kFast,
     .run = list,
     .since = "0.2.0",
     .complexity = "O(N) where N is the number of indexes.",
     .summary = "Returns the names of the database's indexes.",
     .group = kOwn,
     .extra_acl = "@keyspace"},
    {.name = "index.info",
     .arity = exactly(2),
     .flags = kReadOnly | kOffload | kNoMulti,
     .run = info,
     .since = "0.2.0",
     .complexity = "O(T) where T is the number of tables.",
     .summary = "Describes an index, and how far it is built.",
     .group = kOwn,
     .arguments = kName,
     .extra_acl = "@keyspace"},
    {.name = "index.range",
     .arity = at_least(4),
     .flags = kReadOnly | kOffload | kLong | kNoMulti,
     .run = range,
     .since = "0.2.0",
     .complexity = "O(offset + M) where M is the number of returned keys.",
     .summary =
         "Returns the keys of the records whose field lies between min and max, in the order of the values, then of the keys.",
     .group = kOwn,
     .arguments = kRangeArguments,
     .extra_acl = "@keyspace",
     .scope = KeyScope::kAll},
};

}  // namespace

std::span<const CommandSpec> index_commands() { return kIndexes; }

}  // namespace ebbtide
