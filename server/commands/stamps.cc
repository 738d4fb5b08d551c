// STAMP.*: keys by stamp. STAMP.SET is SET with a stamp.
//
// A range of stamps is [lo, hi); - and + mean no bound. Keys without a stamp are in no range, even without bounds.
//
// STAMP.DELRANGE deletes the entries that are current at its commit. It is one operation for any number of entries. It holds all
// locks, so that no command that has read a value before the delete writes it back with its stamp afterwards.
//
// STAMP.SCAN walks in key order with the guarantee of SCAN: it returns every key that exists, with its stamp in the range, from
// the first call to the last.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <engine/stamp_mode.h>
#include "commands/exec_walk.h"
#include "commands/families.h"
#include "commands/purge_ticket.h"
#include "commands/set_value.h"
#include "commands/strings_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/scan_cursors.h"
#include "store/key_codec.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

/// Parses an integer from 0 to 2^63 - 1. An error's message is the reply.
Result<DeleteKey> stamp_argument(Bytes text) {
  const auto number = parse_integer(text);
  if (!number || *number < 0) return reply_error("ERR stamp is not an integer or out of range");
  return static_cast<DeleteKey>(*number);
}

/// A call of STAMP.SCAN reads at most COUNT pages, or this many if COUNT is smaller.
constexpr std::uint64_t kMinPages = 64;
constexpr std::size_t kKeysAtOnce = 1000;
constexpr std::size_t kMaxScanBytes = std::size_t{16} << 20;
/// The most versions that a walk skips for one key of a scan.
constexpr std::uint64_t kMaxSteps = 10'000;

struct StampRange {
  DeleteKey lo = 0, hi = kDeleteKeyEnd;
  [[nodiscard]] bool empty() const { return lo >= hi; }
  [[nodiscard]] bool has(DeleteKey d) const { return lo <= d && d < hi; }
};

Result<StampRange> range_argument(const Ctx& ctx) {
  StampRange range;
  const Bytes lo = ctx.arg(1), hi = ctx.arg(2);
  if (lo != "-" && lo != "+") {
    TRY_ASSIGN(stamp, stamp_argument(lo));
    range.lo = stamp;
  }
  if (hi != "-" && hi != "+") {
    TRY_ASSIGN(stamp, stamp_argument(hi));
    range.hi = stamp;
  }
  if (lo == "+" || hi == "-") range.hi = range.lo;
  return range;
}

Status get(Ctx& ctx) {
  std::optional<Found> found;
  TRY(ctx.strings().locate_any(ctx.key(), &found));
  if (found && found->stamp != kNoStamp) {
    ctx.reply.integer(static_cast<std::int64_t>(found->stamp));
  } else {
    ctx.reply.null();
  }
  return Status::ok();
}

Status set(Ctx& ctx) {
  TRY_ASSIGN(stamp, stamp_argument(ctx.arg(2)));
  if (const StampMode mode = ctx.strings().stamp_mode(); mode != StampMode::kExplicit) {
    return reply_error(std::string("ERR clients do not choose the stamps of this database: its stamp mode is ") +
                       stamp_mode_name(mode));
  }
  return set_value(ctx, 3, stamp);
}

Status delrange(Ctx& ctx) {
  TRY_ASSIGN(range, range_argument(ctx));
  TRY(range_delete_work(ctx, 0));
  // nothing was ever written to a database without a tree
  if (ctx.has_tree() && !range.empty()) {
    ctx.batch.delete_stamps(ctx.session.database, range.lo, range.hi);
    if (ctx.in_exec() && ctx.strings().stamp_mode() == StampMode::kWriteTime) {
      // Entries that the transaction has written get the time of its commit as stamp, but its later commands assume the current
      // time. So the commit fails if a bound of the range lies between the two times.
      for (const DeleteKey border : {range.lo, range.hi}) {
        if (border > ctx.now && border != kDeleteKeyEnd) ctx.batch.rely_on_expiry(border);
      }
    }
  }
  ctx.after_commit = reply_ticket;
  return Status::ok();
}

/// Walks over the database, including the transaction's writes, from `from` on. Calls `visit` for each key in the range. Returns
/// the key at which the next call continues; nullopt at the end.
template <typename Visit>
Result<std::optional<std::string>> walk_pending(Ctx& ctx, const StampRange& range, const std::string& from, Visit visit) {
  IteratorOptions options;
  options.max_steps = std::min(kMaxSteps, walk_limit(ctx));
  const auto walk = ctx.iterate(options);
  ExecWalk limit(ctx, *walk);
  std::uint64_t looked_at = 0;
  for (walk->seek(from); walk->valid(); walk->next()) {
    if (limit.is_spent(++looked_at)) return std::optional(std::string(walk->key()));
    if (is_element_key(walk->key()) || !range.has(walk->stamp())) continue;
    TRY_ASSIGN(goes_on, visit(walk->key(), walk->kind()));
    if (!goes_on) return std::optional(std::string(walk->key()));
  }
  if (walk->paused()) return std::optional(std::string(walk->resume_key()));
  TRY(walk->status());
  return std::optional<std::string>();
}

Result<std::uint64_t> count_exactly(Ctx& ctx, const StampRange& range) {
  std::uint64_t count = 0;
  if (ctx.in_exec()) {
    TRY_ASSIGN(resume, walk_pending(ctx, range, "", [&](Bytes, EntryKind) -> Result<bool> {
                 ++count;
                 return true;
               }));
    if (resume) {
      return reply_error("ERR STAMP.COUNT EXACT inside a transaction examines at most " + std::to_string(Ctx::kExecKeys) +
                         " keys");
    }
    return count;
  }
  std::string from;
  for (bool more = true; more && !ctx.is_cancelled();) {
    TRY_ASSIGN(found, env_of(ctx).db->scan_stamps(ctx.view, range.lo, range.hi, from, kKeysAtOnce, kKeysAtOnce));
    for (const StampedKeys::Key& key : found.keys) count += is_element_key(key.key) ? 0 : 1;
    more = found.more;
    from = std::move(found.resume);
  }
  return count;
}

Status count(Ctx& ctx) {
  ArgCursor cursor(ctx.args, 3);
  const bool exact = cursor.take_word("EXACT");
  if (!cursor.done()) return syntax_error();
  TRY_ASSIGN(range, range_argument(ctx));
  std::uint64_t count = 0;
  if (ctx.has_tree() && !range.empty()) {
    if (exact) {
      TRY_ASSIGN(counted, count_exactly(ctx, range));
      count = counted;
    } else {
      if (ctx.in_exec()) TRY(ctx.work(kEstimateBytes));
      count = env_of(ctx).db->estimate_stamps(ctx.session.database, range.lo, range.hi);
    }
  }
  ctx.reply.integer(static_cast<std::int64_t>(count));
  return Status::ok();
}

struct ScanOptions {
  StampRange range;
  std::uint64_t cursor = 0;
  std::uint64_t count = 10;
  std::optional<Bytes> type;
};

Result<ScanOptions> parse_scan(const Ctx& ctx) {
  ScanOptions options;
  TRY_ASSIGN(range, range_argument(ctx));
  options.range = range;
  TRY_ASSIGN(number, parse_scan_cursor(ctx.arg(3)));
  options.cursor = number;
  for (ArgCursor cursor(ctx.args, 4); !cursor.done();) {
    Bytes value;
    if (cursor.take_option("COUNT", &value)) {
      TRY_ASSIGN(count, integer_argument(value));
      if (count < 1) return syntax_error();
      options.count = static_cast<std::uint64_t>(count);
    } else if (cursor.take_option("TYPE", &value)) {
      options.type = value;
    } else {
      return syntax_error();
    }
  }
  return options;
}

/// The keys that one call of STAMP.SCAN has found so far.
class Batch {
 public:
  Batch(const ScanOptions& options, Strings strings) : options_(options), strings_(strings) {}
  Status add(Bytes engine_key, EntryKind kind) {
    ++looked_at_;
    if (options_.type) {
      TRY_ASSIGN(matches, has_type(engine_key, kind));
      if (!matches) return Status::ok();
    }
    TRY_ASSIGN(key, unescape_key(engine_key, &buffer_));
    bytes_ += key.size();
    keys_.emplace_back(key);
    return Status::ok();
  }
  [[nodiscard]] bool full() const { return looked_at_ >= options_.count || bytes_ >= kMaxScanBytes; }
  [[nodiscard]] std::uint64_t left() const { return options_.count - std::min(options_.count, looked_at_); }
  [[nodiscard]] const std::vector<std::string>& keys() const { return keys_; }

 private:
  /// Returns true if the key has the type of the option TYPE. The stamps of a tree do not show the type of a collection, so this
  /// looks the key up.
  Result<bool> has_type(Bytes engine_key, EntryKind kind) {
    Bytes name = type_name(kind, {});
    std::optional<Found> found;
    if (is_collection(kind)) {
      TRY(strings_.locate_any({engine_key, hash_key(engine_key)}, &found));
      if (found) TRY(strings_.type_of(*found, &name));
    }
    return equal_ignoring_case(*options_.type, name);
  }

  const ScanOptions& options_;
  Strings strings_;
  std::vector<std::string> keys_;
  std::string buffer_;
  std::uint64_t looked_at_ = 0;
  std::size_t bytes_ = 0;
};

Result<std::optional<std::string>> scan_committed(Ctx& ctx, const ScanOptions& options, std::string from, Batch* batch) {
  const std::uint64_t max_pages = std::max(kMinPages, std::min<std::uint64_t>(options.count, kKeysAtOnce));
  for (std::uint64_t pages = 0;;) {
    const auto at_once = static_cast<std::size_t>(std::min<std::uint64_t>(batch->left(), kKeysAtOnce));
    TRY_ASSIGN(found, env_of(ctx).db->scan_stamps(ctx.view, options.range.lo, options.range.hi, from, at_once, max_pages));
    for (const StampedKeys::Key& key : found.keys) {
      if (!is_element_key(key.key)) TRY(batch->add(key.key, key.kind));
    }
    pages += found.pages_read;
    if (!found.more) return std::optional<std::string>();
    from = std::move(found.resume);
    // If no key was found, this search alone was as much work as one call may do, so the call ends.
    if (batch->full() || found.keys.empty() || pages >= max_pages || ctx.is_cancelled()) return std::optional(std::move(from));
  }
}

Status scan(Ctx& ctx) {
  TRY_ASSIGN(options, parse_scan(ctx));
  TRY_ASSIGN(from, resume_scan(*env_of(ctx).cursors, ctx.session.database, options.cursor));
  Batch batch(options, ctx.strings());
  std::optional<std::string> resume;
  if (ctx.has_tree() && !options.range.empty()) {
    if (ctx.in_exec()) {
      TRY_ASSIGN(next, walk_pending(ctx, options.range, from, [&](Bytes key, EntryKind kind) -> Result<bool> {
                   if (batch.full()) return false;
                   TRY(batch.add(key, kind));
                   return true;
                 }));
      resume = std::move(next);
    } else {
      TRY_ASSIGN(next, scan_committed(ctx, options, std::move(from), &batch));
      resume = std::move(next);
    }
  }
  const std::uint64_t cursor = resume ? env_of(ctx).cursors->add(ctx.session.database, std::move(*resume)) : 0;
  ctx.reply.array(2);
  ctx.reply.bulk(std::to_string(cursor));
  ctx.reply.array(batch.keys().size());
  for (const std::string& key : batch.keys()) ctx.reply.bulk(key);
  return Status::ok();
}

constexpr ArgDoc kKeyArgument[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kRangeArguments[] = {
    {.name = "lo"},
    {.name = "hi"},
};
constexpr ArgDoc kCountArguments[] = {
    {.name = "lo"},
    {.name = "hi"},
    {.name = "exact", .type = Type::kPureToken, .token = "EXACT", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kScanArguments[] = {
    {.name = "lo"},
    {.name = "hi"},
    {.name = "cursor", .type = Type::kInteger},
    {.name = "count", .type = Type::kInteger, .token = "COUNT", .flags = ArgDoc::kOptional},
    {.name = "type", .token = "TYPE", .flags = ArgDoc::kOptional},
};

// STAMP.SET without a condition, GET or KEEPTTL overwrites its key without reading it, like SET.
constexpr KeySpec kStampSetKey = {
    .first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate | KeySpec::kVariableFlags, .blind_argc = 4};

constexpr CommandSpec kStamps[] = {
    {.name = "stamp.set",
     .arity = at_least(4),
     .keys = kStampSetKey,
     .flags = kWrite | kDenyOom,
     .run = set,
     .since = "0.1.0",
     .complexity = "O(1)",
     .summary = "Sets the string value of a key and its stamp, an integer from 0 to 2^63-1, where the database's stamp mode is "
                "explicit. Takes the options of SET.",
     .group = Group::kExtension,
     .arguments = kStampSetArguments,
     .extra_acl = "@string"},
    {.name = "stamp.get",
     .arity = exactly(2),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = get,
     .since = "0.1.0",
     .complexity = "O(1)",
     .summary = "Returns the stamp of a key, or nil if the key is missing or has no stamp.",
     .group = Group::kExtension,
     .arguments = kKeyArgument,
     .extra_acl = "@keyspace"},
    {.name = "stamp.delrange",
     .arity = exactly(3),
     .flags = kWrite | kDangerous | kLockAll | kReplySynced,
     .run = delrange,
     .since = "0.1.0",
     .complexity = "O(1)",
     .summary = "Deletes every key with a stamp from lo up to, but not including, hi; - and + leave an end open. Keys without a "
                "stamp stay. Returns a purge ticket.",
     .group = Group::kExtension,
     .arguments = kRangeArguments,
     .extra_acl = "@keyspace",
     .scope = KeyScope::kAll},
    {.name = "stamp.count",
     .arity = at_least(3),
     .flags = kReadOnly | kOffload | kLong,
     .run = count,
     .since = "0.1.0",
     .complexity =
         "O(P) where P is the number of pages of the database, from memory; with EXACT also O(N) where N is the number of "
         "keys in the range.",
     .summary =
         "Estimates how many keys have a stamp from lo up to, but not including, hi; - and + leave an end open. With EXACT, "
         "counts them.",
     .group = Group::kExtension,
     .arguments = kCountArguments,
     .extra_acl = "@keyspace",
     .scope = KeyScope::kAll},
    {.name = "stamp.scan",
     .arity = at_least(4),
     .flags = kReadOnly | kOffload,
     .run = scan,
     .since = "0.1.0",
     .complexity = "O(COUNT) for every call, O(N) for a complete iteration, where N is the number of keys in the range.",
     .summary =
         "Iterates over the names of the keys with a stamp from lo up to, but not including, hi; - and + leave an end open.",
     .group = Group::kExtension,
     .arguments = kScanArguments,
     .extra_acl = "@keyspace",
     .scope = KeyScope::kAll},
};

}  // namespace

std::span<const CommandSpec> stamp_commands() { return kStamps; }

}  // namespace ebbtide
