// Walks over the key space: SCAN, KEYS, RANDOMKEY, DBSIZE.
//
// These commands may read for long, so they run on an offload thread with a leased view. SCAN returns every key that exists from
// its first call to its last, in key order. Each call continues at the first key that the previous call has not visited. One call
// is limited to COUNT keys, kMaxSteps skipped versions per key, and kMaxScanBytes of reply. A MATCH that begins with literal text
// reads only the range of that prefix.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/exec_walk.h"
#include "commands/families.h"
#include "commands/keys_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/scan_cursors.h"
#include "store/glob.h"
#include "store/key_codec.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kMaxSteps = 10'000;
constexpr std::size_t kMaxScanBytes = std::size_t{16} << 20;
constexpr std::size_t kLargeKeyBytes = 1024;  // longer keys are freed one by one, as soon as the reply has a copy
/// DBSIZE counts the keys of a database of up to this many entries. For a larger database it estimates from a sample.
constexpr std::uint64_t kMaxCountedEntries = 1'000'000;
/// DBSIZE also counts a larger database if it has up to this many keys and deleted entries: then the others are elements of large
/// collections. The walk passes over each collection in one step, which takes some microseconds.
constexpr std::uint64_t kMaxCountedKeys = 50'000;
/// How many random positions RANDOMKEY tries. After each position it skips kMaxSteps versions at most.
constexpr int kRandomPlaces = 8;

struct ScanOptions {
  std::uint64_t cursor = 0;
  std::int64_t count = 10;
  std::optional<Bytes> match;
  std::optional<Bytes> type;
};

Result<ScanOptions> parse_scan(const Ctx& ctx) {
  ScanOptions options;
  TRY_ASSIGN(number, parse_scan_cursor(ctx.arg(1)));
  options.cursor = number;
  for (ArgCursor cursor(ctx.args, 2); !cursor.done();) {
    Bytes value;
    if (cursor.take_option("COUNT", &value)) {
      TRY_ASSIGN(count, integer_argument(value));
      if (count < 1) return syntax_error();
      options.count = count;
    } else if (cursor.take_option("MATCH", &value)) {
      options.match = value;
    } else if (cursor.take_option("TYPE", &value)) {
      options.type = value;
    } else {
      return syntax_error();
    }
  }
  return options;
}

KeyRange range_of_pattern(const std::optional<Bytes>& pattern) {
  return pattern ? engine_prefix_range(glob_literal_prefix(*pattern)) : KeyRange{};
}

/// Returns true if a key matches a pattern. kAborted if the client disconnects meanwhile: matching a long pattern with a long key
/// takes seconds.
Result<bool> matches(const Ctx& ctx, Bytes pattern, Bytes key) {
  constexpr std::size_t kSteps = 1 << 20;
  GlobMatch match(pattern, key);
  while (true) {
    if (const std::optional<bool> matched = match.go_on(kSteps)) return *matched;
    if (ctx.is_cancelled()) return Status::aborted("the client has disconnected");
  }
}

/// Returns the name of the type of the key at `walk`. Of a collection it reads the value, whose first byte has the type.
Bytes type_of(Iterator& walk) { return type_name(walk.kind(), is_collection(walk.kind()) ? walk.value() : Bytes()); }

/// Collects keys from `walk` on, and visits `limit` keys at most. Returns the key at which the next call continues; nullopt at
/// the end of the range.
Result<std::optional<std::string>> collect(Ctx& ctx, const ScanOptions& options, Iterator& walk, std::vector<std::string>* keys,
                                           std::uint64_t* looked_at) {
  std::string buffer;
  std::size_t bytes = 0, reserved = 0;
  ExecWalk limit(ctx, walk);
  for (*looked_at = 0; walk.valid(); walk.next(), ++*looked_at) {
    if (std::cmp_greater_equal(*looked_at, options.count) || bytes >= kMaxScanBytes || limit.is_spent(*looked_at))
      return std::optional(std::string(walk.key()));
    if (is_element_key(walk.key())) continue;
    TRY_ASSIGN(key, unescape_key(walk.key(), &buffer));
    if (options.match) {
      TRY_ASSIGN(matched, matches(ctx, *options.match, key));
      if (!matched) continue;
    }
    if (options.type && !equal_ignoring_case(*options.type, type_of(walk))) continue;
    bytes += key.size();
    if (bytes > reserved + Ctx::kReplyStep) {
      TRY(ctx.reserve(bytes - reserved));
      reserved = bytes;
    }
    keys->emplace_back(key);
  }
  if (walk.paused()) return std::optional(std::string(walk.resume_key()));
  TRY(walk.status());
  return std::optional<std::string>();
}

Status scan(Ctx& ctx) {
  TRY_ASSIGN(options, parse_scan(ctx));
  IteratorOptions walk_options;
  walk_options.bounds = range_of_pattern(options.match);
  walk_options.max_steps = std::min(kMaxSteps, walk_limit(ctx));
  std::string start = walk_options.bounds.start;
  if (options.cursor != 0) {
    TRY_ASSIGN(resume, resume_scan(*env_of(ctx).cursors, ctx.session.database, options.cursor));
    start = std::max(start, resume);
  }
  std::vector<std::string> keys;
  std::optional<std::string> resume;
  ctx.counts.scan_steps = 0;
  if (ctx.has_tree()) {
    const auto walk = ctx.iterate(walk_options);
    walk->seek(start);
    std::uint64_t looked_at = 0;
    TRY_ASSIGN(next, collect(ctx, options, *walk, &keys, &looked_at));
    resume = std::move(next);
    ctx.counts.scan_steps = looked_at + walk->steps();
  }
  const std::uint64_t cursor = resume ? env_of(ctx).cursors->add(ctx.session.database, std::move(*resume)) : 0;
  ctx.reply.array(2);
  ctx.reply.bulk(std::to_string(cursor));
  ctx.reply.array(keys.size());
  for (std::string& key : keys) {
    ctx.reply.bulk(key);
    if (key.size() > kLargeKeyBytes) std::string().swap(key);  // the reply has a copy
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

Status keys(Ctx& ctx) {
  const Bytes pattern = ctx.arg(1);
  IteratorOptions options;
  options.bounds = range_of_pattern(pattern);
  options.max_steps = ctx.in_exec() ? walk_limit(ctx) : 0;
  const std::uint64_t hole = ctx.reply.begin_array();
  std::size_t count = 0;
  if (ctx.has_tree()) {
    std::string buffer;
    const auto walk = ctx.iterate(options);
    ExecWalk limit(ctx, *walk);
    std::uint64_t looked_at = 0;
    const auto too_many = [] {
      return reply_error("ERR KEYS inside a transaction examines at most " + std::to_string(Ctx::kExecKeys) + " keys: use SCAN");
    };
    for (walk->seek(options.bounds.start); walk->valid(); walk->next()) {
      if (ctx.is_cancelled()) break;
      if (limit.is_spent(++looked_at)) return too_many();
      if (is_element_key(walk->key())) continue;
      TRY_ASSIGN(key, unescape_key(walk->key(), &buffer));
      TRY_ASSIGN(matched, matches(ctx, pattern, key));
      if (!matched) continue;
      if (ctx.reply.out().overflown()) break;  // the client will be closed
      ctx.reply.bulk(key);
      TRY(ctx.reserve_reply());
      ++count;
    }
    if (walk->paused()) return too_many();
    TRY(walk->status());
  }
  ctx.reply.end_array(hole, count);
  return Status::ok();
}

/// Returns a random position between two keys: their common prefix, then random bytes. The first random byte lies between the
/// bytes that follow the prefix in the two keys. nullopt: the position before both keys, which is as likely as each value of that
/// byte.
std::optional<std::string> random_place(Bytes first, Bytes last, std::uint64_t random) {
  std::size_t common = 0;
  while (common < first.size() && common < last.size() && first[common] == last[common]) ++common;
  std::string place(first.substr(0, common));
  const unsigned low = common < first.size() ? static_cast<unsigned char>(first[common]) : 0;
  const unsigned high = common < last.size() ? static_cast<unsigned char>(last[common]) : low;
  const unsigned choice = static_cast<unsigned>(random % (high - low + 2));
  if (choice > high - low) return std::nullopt;
  place.push_back(static_cast<char>(low + choice));
  for (random /= 257; random != 0; random >>= 8) place.push_back(static_cast<char>(random));
  return place;
}

/// Moves to the first key from `from` on, in moves that skip max_steps versions each. Afterwards `walk` is at a key, unless there
/// is none, the client has disconnected, or a transaction's limit is reached.
void walk_on(const Ctx& ctx, Iterator& walk, ExecWalk& limit, const std::string& from) {
  for (walk.seek(from); walk.paused() && !ctx.is_cancelled() && !limit.is_spent(0);) walk.seek(std::string(walk.resume_key()));
}

/// Moves to the key that follows a random position. Each move skips kMaxSteps versions at most, and if it ends without a key,
/// another position is tried. So millions of deleted entries cost only a few moves. After kRandomPlaces positions the walk goes
/// to the first key of the database. Returns false if there is no key.
Result<bool> walk_to_random(Ctx& ctx, Iterator& walk) {
  ExecWalk limit(ctx, walk);
  walk.seek_to_first();
  if (!walk.valid() && !walk.paused()) return false;
  const std::string first(walk.valid() ? walk.key() : walk.resume_key());  // no key is smaller
  walk.seek_to_last();
  if (!walk.valid() && !walk.paused()) return false;
  const bool last_known = walk.valid();
  const std::string last(last_known ? walk.key() : walk.resume_key());  // no key is greater
  std::uint64_t random = ctx.random;
  for (int i = 0; i < kRandomPlaces; ++i, random = random * 6364136223846793005u + 1442695040888963407u) {
    walk.seek(random_place(first, last, i == 0 ? random : random >> 16).value_or(first));
    if (walk.valid()) return true;
    if (walk.paused()) {
      if (limit.is_spent(0)) break;
      continue;
    }
    TRY(walk.status());
    if (last_known) {
      walk.seek(last);
      return walk.valid();
    }
  }
  TRY(ctx.go_on_for_long());
  walk_on(ctx, walk, limit, first);
  if (walk.paused() && !ctx.is_cancelled()) {
    return reply_error("ERR RANDOMKEY inside a transaction skips at most " + std::to_string(Ctx::kExecKeys) + " deleted entries");
  }
  return walk.valid();
}

/// Replies with the key that follows a random position in the key space. Any key may be returned, but a key after a large gap is
/// more likely.
Status randomkey(Ctx& ctx) {
  IteratorOptions options;
  options.max_steps = std::min(kMaxSteps, walk_limit(ctx));
  const auto walk = ctx.has_tree() ? ctx.iterate(options) : nullptr;
  bool found = false;
  if (walk != nullptr) {
    TRY_ASSIGN(any, walk_to_random(ctx, *walk));
    TRY(walk->status());
    found = any;
  }
  if (!found) {
    ctx.reply.null();
    return Status::ok();
  }
  std::string buffer;
  TRY_ASSIGN(key, unescape_key(walk->key(), &buffer));
  ctx.reply.bulk(key);
  return Status::ok();
}

/// Runs DBSIZE inside a transaction.
Status dbsize_inline(Ctx& ctx) {
  IteratorOptions options;
  options.max_steps = walk_limit(ctx);
  const auto walk = ctx.iterate(options);
  ExecWalk limit(ctx, *walk);
  std::uint64_t size = 0, looked_at = 0;
  for (walk->seek_to_first(); walk->valid() && !limit.is_spent(looked_at); walk->next(), ++looked_at) {
    size += is_element_key(walk->key()) ? 0 : 1;
  }
  TRY(walk->status());
  if (walk->valid() || walk->paused()) {  // the count is incomplete, and 0 would mean that there is no key
    TRY(ctx.work(kEstimateBytes));
    size = std::max({size, env_of(ctx).db->estimate_keys(ctx.session.database, KeyRange{}), std::uint64_t{1}});
  }
  ctx.reply.integer(static_cast<std::int64_t>(size));
  return Status::ok();
}

/// Counts the keys of a large database. Returns nullopt if they and the deleted entries are more than kMaxCountedKeys.
Result<std::optional<std::uint64_t>> count_few_keys(Ctx& ctx) {
  const Db& db = *env_of(ctx).db;
  if (db.estimate_keys(ctx.session.database, KeyRange{}) > kMaxCountedKeys) return std::optional<std::uint64_t>();
  IteratorOptions options;
  options.max_steps = kMaxCountedKeys;
  const auto walk = ctx.iterate(options);
  std::uint64_t keys = 0;
  for (walk->seek_to_first(); walk->valid() && keys + walk->steps() <= kMaxCountedKeys; walk->next()) ++keys;
  TRY(walk->status());
  return walk->valid() || walk->paused() ? std::nullopt : std::optional(keys);
}

Status dbsize(Ctx& ctx) {
  if (ctx.in_exec()) return dbsize_inline(ctx);
  if (!ctx.view.has_tree()) {
    ctx.reply.integer(0);
    return Status::ok();
  }
  TRY_ASSIGN(info, env_of(ctx).db->tree_info(ctx.session.database));
  std::uint64_t entries = info.memtable_entries;
  for (const RunInfo& run : info.runs) entries += run.entries;
  Db& db = *env_of(ctx).db;
  std::optional<std::uint64_t> size;
  if (entries > kMaxCountedEntries) {
    TRY_ASSIGN(few, count_few_keys(ctx));
    size = few;
  }
  if (!size) {
    TRY_ASSIGN(keys, entries <= kMaxCountedEntries ? db.count(ctx.session.database, KeyRange{})
                                                   : db.sample_keys(ctx.session.database, ctx.random));
    size = keys;
  }
  ctx.reply.integer(static_cast<std::int64_t>(*size));
  return Status::ok();
}

constexpr CommandSpec kScan[] = {
    {.name = "scan",
     .arity = at_least(2),
     .flags = kReadOnly | kOffload,
     .run = scan,
     .since = "2.8.0",
     .complexity = "O(COUNT) for every call, O(N) for a complete iteration.",
     .summary = "Iterates over the key names in the database.",
     .arguments = kScanArguments},
    {.name = "keys",
     .arity = exactly(2),
     .flags = kReadOnly | kDangerous | kOffload | kLong,
     .run = keys,
     .since = "1.0.0",
     .complexity = "O(N) with N being the number of keys that share the literal beginning of the pattern.",
     .summary = "Returns all key names that match a pattern.",
     .arguments = kKeysArguments},
    {.name = "randomkey",
     .arity = exactly(1),
     .flags = kReadOnly | kOffload,
     .run = randomkey,
     .since = "1.0.0",
     .complexity = "O(1); O(N) where nearly all of N entries are deleted and not merged away yet.",
     .summary = "Returns a random key name from the database."},
    {.name = "dbsize",
     .arity = exactly(1),
     .flags = kReadOnly | kFast | kOffload | kLong,
     .run = dbsize,
     .since = "1.0.0",
     .complexity = "O(N), exact, up to a million entries; beyond that O(1), an estimate from a sample, good to 2 %.",
     .summary = "Returns the number of keys in the database.",
     .group = Group::kServer,
     .extra_acl = "@keyspace"},
};

}  // namespace

std::span<const CommandSpec> scan_commands() { return kScan; }

}  // namespace ebbtide
