// Commands on keys of any type: DEL, EXISTS, EXPIRE, TTL and others.
//
// If keys of a command miss pages, one attempt finds the missing pages of all its keys, so that they are read together. Large
// values are not read, unless the entry has to be written again with another expiry.
#include <optional>
#include <string>
#include <vector>

#include <engine/seeded_hash.h>

#include "commands/families.h"
#include "commands/keys_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/expiry.h"
#include "store/strings.h"

namespace ebbtide {
namespace {

/// The keys that a command has already handled, since DEL k k removes one key.
class SeenKeys {
 public:
  explicit SeenKeys(std::size_t keys) : many_(keys > kFew) {}
  /// Returns false if the key was inserted before.
  bool insert(const LookupKey& key) {
    if (many_) return set_.insert(key.key).second;
    for (const LookupKey& other : few_) {
      if (other.hash == key.hash && other.key == key.key) return false;
    }
    few_.push_back(key);
    return true;
  }

 private:
  static constexpr std::size_t kFew = 8;
  const bool many_;
  std::vector<LookupKey> few_;
  BytesSet set_;
};

Status del(Ctx& ctx) {
  Strings strings = ctx.strings();
  SeenKeys removed(ctx.keys.size());
  bool resident = true;
  std::int64_t count = 0;
  for (const LookupKey& key : ctx.keys) {
    std::optional<Found> found;
    const Status status = strings.locate_any_for_update(key, &found);
    resident &= !status.is_not_resident();
    if (!resident) continue;
    TRY(status);
    TRY(ctx.work(0));
    if (!found || (ctx.keys.size() > 1 && !removed.insert(key))) continue;
    strings.remove(key, *found);
    ++count;
  }
  if (!resident) return Status::not_resident();
  ctx.reply.integer(count);
  return Status::ok();
}

/// Counts the keys that exist, for EXISTS and TOUCH. A key that is named twice counts twice.
Status exists(Ctx& ctx) {
  Strings strings = ctx.strings();
  bool resident = true;
  std::int64_t count = 0;
  for (const LookupKey& key : ctx.keys) {
    std::optional<Found> found;
    const Status status = strings.locate_any(key, &found);
    resident &= !status.is_not_resident();
    if (status.is_not_resident()) continue;
    TRY(status);
    TRY(ctx.work(0));
    count += found ? 1 : 0;
  }
  if (!resident) return Status::not_resident();
  ctx.reply.integer(count);
  return Status::ok();
}

Status type(Ctx& ctx) {
  Strings strings = ctx.strings();
  std::optional<Found> found;
  TRY(strings.locate_any(ctx.key(), &found));
  Bytes name = "none";
  if (found) TRY(strings.type_of(*found, &name));
  ctx.reply.simple(name);
  return Status::ok();
}

struct ExpireConditions {
  bool nx = false, xx = false, gt = false, lt = false;

  [[nodiscard]] bool allow(Millis current, std::int64_t wanted) const {
    if (nx && current != 0) return false;
    if (xx && current == 0) return false;
    // a key without an expiry is treated as if it expired after all others
    if (gt && (current == 0 || wanted <= static_cast<std::int64_t>(current))) return false;
    return !(lt && current != 0 && wanted >= static_cast<std::int64_t>(current));
  }
};

Result<ExpireConditions> parse_conditions(const Ctx& ctx) {
  ExpireConditions conditions;
  for (ArgCursor cursor(ctx.args, 3); !cursor.done();) {
    if (cursor.take_word("NX")) {
      conditions.nx = true;
    } else if (cursor.take_word("XX")) {
      conditions.xx = true;
    } else if (cursor.take_word("GT")) {
      conditions.gt = true;
    } else if (cursor.take_word("LT")) {
      conditions.lt = true;
    } else {
      return reply_error("ERR Unsupported option " + std::string(shown(cursor.peek())));
    }
  }
  if (conditions.nx && (conditions.xx || conditions.gt || conditions.lt)) {
    return reply_error("ERR NX and XX, GT or LT options at the same time are not compatible");
  }
  if (conditions.gt && conditions.lt) return reply_error("ERR GT and LT options at the same time are not compatible");
  return conditions;
}

Status expire_generic(Ctx& ctx, ExpiryForm form) {
  TRY_ASSIGN(conditions, parse_conditions(ctx));
  TRY_ASSIGN(value, integer_argument(ctx.arg(2)));
  const auto expiry = absolute_expiry(value, form, ctx.now);
  if (!expiry) return reply_error("ERR invalid expire time in '" + std::string(ctx.command.spec->name) + "' command");
  Strings strings = ctx.strings();
  std::optional<Found> found;
  TRY(strings.locate_any_for_update(ctx.key(), &found));
  if (!found || !conditions.allow(key_expiry(*found), *expiry)) {
    ctx.reply.integer(0);
    return Status::ok();
  }
  if (has_passed(*expiry, ctx.now)) {
    strings.remove(ctx.key(), *found);
  } else {
    TRY(ctx.work(found->length));
    TRY(strings.read(&*found));
    strings.set_expiry(ctx.key(), *found, static_cast<Millis>(*expiry));
  }
  ctx.reply.integer(1);
  return Status::ok();
}

Status expire(Ctx& ctx) { return expire_generic(ctx, kInSeconds); }
Status pexpire(Ctx& ctx) { return expire_generic(ctx, kInMillis); }
Status expireat(Ctx& ctx) { return expire_generic(ctx, kAtSecond); }
Status pexpireat(Ctx& ctx) { return expire_generic(ctx, kAtMilli); }

Status ttl_generic(Ctx& ctx, ExpiryForm form) {
  std::optional<Found> found;
  TRY(ctx.strings().locate_any(ctx.key(), &found));
  ctx.reply.integer(found ? describe_expiry(key_expiry(*found), form, ctx.now) : -2);
  return Status::ok();
}

Status ttl(Ctx& ctx) { return ttl_generic(ctx, kInSeconds); }
Status pttl(Ctx& ctx) { return ttl_generic(ctx, kInMillis); }
Status expiretime(Ctx& ctx) { return ttl_generic(ctx, kAtSecond); }
Status pexpiretime(Ctx& ctx) { return ttl_generic(ctx, kAtMilli); }

Status persist(Ctx& ctx) {
  Strings strings = ctx.strings();
  std::optional<Found> found;
  TRY(strings.locate_any_for_update(ctx.key(), &found));
  const bool had_expiry = found && key_expiry(*found) != 0;
  if (had_expiry) {
    TRY(ctx.work(found->length));
    TRY(strings.read(&*found));
    strings.set_expiry(ctx.key(), *found, 0);
  }
  ctx.reply.integer(had_expiry ? 1 : 0);
  return Status::ok();
}

constexpr KeySpec kReadKeys = {.first = 1, .last = -1, .access = KeySpec::kRo};
constexpr KeySpec kRemoveKeys = {.first = 1, .last = -1, .access = KeySpec::kRm | KeySpec::kDelete};
constexpr KeySpec kReadKey = {.first = 1, .access = KeySpec::kRo};
constexpr KeySpec kAccessKey = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess};
constexpr KeySpec kUpdateKey = {.first = 1, .access = KeySpec::kRw | KeySpec::kUpdate};

constexpr CommandSpec kKeys[] = {
    {.name = "del",
     .arity = at_least(2),
     .keys = kRemoveKeys,
     .flags = kWrite,
     .run = del,
     .since = "1.0.0",
     .complexity = "O(N) where N is the number of keys that will be removed.",
     .summary = "Deletes one or more keys.",
     .arguments = kDelArguments},
    {.name = "unlink",
     .arity = at_least(2),
     .keys = kRemoveKeys,
     .flags = kWrite | kFast,
     .run = del,
     .since = "4.0.0",
     .complexity = "O(N) where N is the number of keys that will be removed.",
     .summary = "Asynchronously deletes one or more keys.",
     .arguments = kUnlinkArguments},
    {.name = "exists",
     .arity = at_least(2),
     .keys = kReadKeys,
     .flags = kReadOnly | kFast,
     .run = exists,
     .since = "1.0.0",
     .complexity = "O(N) where N is the number of keys to check.",
     .summary = "Determines whether one or more keys exist.",
     .arguments = kExistsArguments},
    {.name = "touch",
     .arity = at_least(2),
     .keys = kReadKeys,
     .flags = kReadOnly | kFast,
     .run = exists,
     .since = "3.2.1",
     .complexity = "O(N) where N is the number of keys that will be touched.",
     .summary = "Returns the number of existing keys out of those specified after updating the time they were last accessed.",
     .arguments = kTouchArguments},
    {.name = "type",
     .arity = exactly(2),
     .keys = kReadKey,
     .flags = kReadOnly | kFast,
     .run = type,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Determines the type of value stored at a key.",
     .arguments = kTypeArguments},
    {.name = "expire",
     .arity = at_least(3),
     .keys = kUpdateKey,
     .flags = kWrite | kFast,
     .run = expire,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Sets the expiration time of a key in seconds.",
     .arguments = kExpireArguments},
    {.name = "pexpire",
     .arity = at_least(3),
     .keys = kUpdateKey,
     .flags = kWrite | kFast,
     .run = pexpire,
     .since = "2.6.0",
     .complexity = "O(1)",
     .summary = "Sets the expiration time of a key in milliseconds.",
     .arguments = kPexpireArguments},
    {.name = "expireat",
     .arity = at_least(3),
     .keys = kUpdateKey,
     .flags = kWrite | kFast,
     .run = expireat,
     .since = "1.2.0",
     .complexity = "O(1)",
     .summary = "Sets the expiration time of a key to a Unix timestamp.",
     .arguments = kExpireatArguments},
    {.name = "pexpireat",
     .arity = at_least(3),
     .keys = kUpdateKey,
     .flags = kWrite | kFast,
     .run = pexpireat,
     .since = "2.6.0",
     .complexity = "O(1)",
     .summary = "Sets the expiration time of a key to a Unix milliseconds timestamp.",
     .arguments = kPexpireatArguments},
    {.name = "ttl",
     .arity = exactly(2),
     .keys = kAccessKey,
     .flags = kReadOnly | kFast,
     .run = ttl,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Returns the expiration time in seconds of a key.",
     .arguments = kTtlArguments},
    {.name = "pttl",
     .arity = exactly(2),
     .keys = kAccessKey,
     .flags = kReadOnly | kFast,
     .run = pttl,
     .since = "2.6.0",
     .complexity = "O(1)",
     .summary = "Returns the expiration time in milliseconds of a key.",
     .arguments = kPttlArguments},
    {.name = "expiretime",
     .arity = exactly(2),
     .keys = kAccessKey,
     .flags = kReadOnly | kFast,
     .run = expiretime,
     .since = "7.0.0",
     .complexity = "O(1)",
     .summary = "Returns the expiration time of a key as a Unix timestamp.",
     .arguments = kExpiretimeArguments},
    {.name = "pexpiretime",
     .arity = exactly(2),
     .keys = kAccessKey,
     .flags = kReadOnly | kFast,
     .run = pexpiretime,
     .since = "7.0.0",
     .complexity = "O(1)",
     .summary = "Returns the expiration time of a key as a Unix milliseconds timestamp.",
     .arguments = kPexpiretimeArguments},
    {.name = "persist",
     .arity = exactly(2),
     .keys = kUpdateKey,
     .flags = kWrite | kFast,
     .run = persist,
     .since = "2.2.0",
     .complexity = "O(1)",
     .summary = "Removes the expiration time of a key.",
     .arguments = kPersistArguments},
};

}  // namespace

std::span<const CommandSpec> key_commands() { return kKeys; }

}  // namespace ebbtide
