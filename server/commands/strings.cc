// GET, SET and the other commands on whole strings.
//
// A SET without a condition, GET or KEEPTTL reads nothing. Errors and their order are Redis's.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/families.h"
#include "commands/set_value.h"
#include "commands/strings_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "dispatch/value_pieces.h"
#include "store/collections.h"
#include "store/expiry.h"
#include "store/strings.h"

namespace ebbtide {
namespace {

// Replies with bytes of a value of `length`. A large value has a memory charge of its own, so the reply can share it. A smaller
// value is copied into the reply, which is charged.
void reply_bytes(Reply& reply, std::uint64_t length, const std::shared_ptr<const void>& pin, Bytes bytes) {
  length > kLargeValueBytes ? reply.bulk_shared(pin, bytes) : reply.bulk(bytes);
}

void reply_value(Reply& reply, const std::optional<Found>& found) {
  found ? reply_bytes(reply, found->value.size(), found->pin, found->value) : reply.null();
}

Status get(Ctx& ctx) {
  std::optional<Found> found;
  TRY(ctx.strings().get(ctx.key(), &found));
  reply_value(ctx.reply, found);
  return Status::ok();
}

Status mget(Ctx& ctx) {
  Strings strings = ctx.strings();
  ctx.reply.array(ctx.keys.size());
  bool resident = true;
  for (const LookupKey& key : ctx.keys) {
    std::optional<Found> found;
    const Status status = strings.get_any(key, &found);
    // The loop continues, so that the missing pages of all keys are read together.
    resident &= !status.is_not_resident();
    if (!resident) continue;
    TRY(status);
    if (ctx.reply.out().overflown()) break;  // the client will be closed
    TRY(ctx.work(found && found->pin == nullptr ? found->value.size() : 0));
    if (found && found->kind != EntryKind::kValue) found.reset();
    reply_value(ctx.reply, found);
    TRY(ctx.reserve_reply());
  }
  return resident ? Status::ok() : Status::not_resident();
}

/// The options of SET and GETEX for the expiry.
enum class ExpiryOption : std::uint8_t { kNone, kEx, kPx, kExAt, kPxAt, kKeepTtl, kPersist };

constexpr ExpiryForm form_of(ExpiryOption option) {
  const bool seconds = option == ExpiryOption::kEx || option == ExpiryOption::kExAt;
  return {.unit = seconds ? ExpiryUnit::kSeconds : ExpiryUnit::kMilliseconds,
          .relative = option == ExpiryOption::kEx || option == ExpiryOption::kPx};
}

/// Takes an expiry option at the cursor. Returns false if there is none, or if it contradicts an earlier option. If an option is
/// repeated, its last value counts.
bool take_expiry(ArgCursor& cursor, ExpiryOption* option, Bytes* value) {
  static constexpr struct {
    Bytes word;
    ExpiryOption option;
  } kWords[] = {
      {"EX", ExpiryOption::kEx}, {"PX", ExpiryOption::kPx}, {"EXAT", ExpiryOption::kExAt}, {"PXAT", ExpiryOption::kPxAt}};
  for (const auto& [word, named] : kWords) {
    if (*option != ExpiryOption::kNone && *option != named) continue;
    if (!cursor.take_option(word, value)) continue;
    *option = named;
    return true;
  }
  return false;
}

Status invalid_expire_time(const Ctx& ctx) {
  return reply_error("ERR invalid expire time in '" + std::string(ctx.command.spec->name) + "' command");
}

/// Returns the absolute expiry in ms that an option and its value mean.
Result<std::int64_t> parse_expiry(const Ctx& ctx, ExpiryOption option, Bytes value) {
  TRY_ASSIGN(number, integer_argument(value));
  const auto expiry = positive_absolute_expiry(number, form_of(option), ctx.now);
  if (!expiry) return invalid_expire_time(ctx);
  return *expiry;
}

struct SetOptions {
  bool nx = false, xx = false, get = false;
  ExpiryOption expiry = ExpiryOption::kNone;
  Bytes expiry_value;
};

Result<SetOptions> parse_set_options(const Ctx& ctx, std::size_t first) {
  SetOptions options;
  for (ArgCursor cursor(ctx.args, first); !cursor.done();) {
    if (!options.xx && cursor.take_word("NX")) {
      options.nx = true;
    } else if (!options.nx && cursor.take_word("XX")) {
      options.xx = true;
    } else if (cursor.take_word("GET")) {
      options.get = true;
    } else if ((options.expiry == ExpiryOption::kNone || options.expiry == ExpiryOption::kKeepTtl) &&
               cursor.take_word("KEEPTTL")) {
      options.expiry = ExpiryOption::kKeepTtl;
    } else if (!take_expiry(cursor, &options.expiry, &options.expiry_value)) {
      return syntax_error();
    }
  }
  return options;
}

/// Writes the value. If its expiry has already passed, deletes the key instead.
Status write_value(Ctx& ctx, Strings& strings, std::size_t value_arg, std::int64_t expiry, DeleteKey stamp = kNoStamp) {
  if (expiry != 0 && has_passed(expiry, ctx.now)) {
    std::optional<Found> old;
    TRY(strings.locate_any_for_update(ctx.key(), &old));
    if (old) strings.remove(ctx.key(), *old);
    return Status::ok();
  }
  return strings.set(ctx.key(), ctx.arg(value_arg), static_cast<Millis>(expiry), ctx.shared_arg(value_arg), stamp);
}

}  // namespace

Status set_value(Ctx& ctx, std::size_t value_arg, DeleteKey stamp) {
  Strings strings = ctx.strings();
  TRY_ASSIGN(options, parse_set_options(ctx, value_arg + 1));
  std::int64_t expiry = 0;
  if (options.expiry != ExpiryOption::kNone && options.expiry != ExpiryOption::kKeepTtl) {
    TRY_ASSIGN(parsed, parse_expiry(ctx, options.expiry, options.expiry_value));
    expiry = parsed;
  }
  std::optional<Found> old;
  if (options.get || options.nx || options.xx || options.expiry == ExpiryOption::kKeepTtl) {
    TRY(strings.locate_any_for_update(ctx.key(), &old));
  }
  if (options.get) {
    if (old && old->kind != EntryKind::kValue) return wrong_type();
    if (old) TRY(strings.read(&*old));
    reply_value(ctx.reply, old);
  }
  if ((options.nx && old) || (options.xx && !old)) {
    if (!options.get) ctx.reply.null();
    return Status::ok();
  }
  if (options.expiry == ExpiryOption::kKeepTtl && old) expiry = static_cast<std::int64_t>(key_expiry(*old));
  TRY(write_value(ctx, strings, value_arg, expiry, stamp));
  if (!options.get) ctx.reply.ok();
  return Status::ok();
}

namespace {

Status set(Ctx& ctx) {
  if (ctx.argc() > 3) return set_value(ctx, 2, kNoStamp);
  TRY(ctx.strings().set(ctx.key(), ctx.arg(2), 0, ctx.shared_arg(2)));
  ctx.reply.ok();
  return Status::ok();
}

Status setnx(Ctx& ctx) {
  Strings strings = ctx.strings();
  std::optional<Found> old;
  TRY(strings.locate_any_for_update(ctx.key(), &old));
  if (!old) TRY(strings.set(ctx.key(), ctx.arg(2), 0, ctx.shared_arg(2)));
  ctx.reply.integer(old ? 0 : 1);
  return Status::ok();
}

Status set_expiring(Ctx& ctx, ExpiryOption option) {
  TRY_ASSIGN(expiry, parse_expiry(ctx, option, ctx.arg(2)));
  Strings strings = ctx.strings();
  TRY(write_value(ctx, strings, 3, expiry));
  ctx.reply.ok();
  return Status::ok();
}

Status setex(Ctx& ctx) { return set_expiring(ctx, ExpiryOption::kEx); }
Status psetex(Ctx& ctx) { return set_expiring(ctx, ExpiryOption::kPx); }

Status getset(Ctx& ctx) {
  Strings strings = ctx.strings();
  std::optional<Found> old;
  TRY(strings.get_for_update(ctx.key(), &old));
  reply_value(ctx.reply, old);
  return strings.set(ctx.key(), ctx.arg(2), 0, ctx.shared_arg(2));
}

Status getdel(Ctx& ctx) {
  Strings strings = ctx.strings();
  std::optional<Found> old;
  TRY(strings.get_for_update(ctx.key(), &old));
  reply_value(ctx.reply, old);
  if (old) strings.remove(ctx.key(), *old);
  return Status::ok();
}

Status getex(Ctx& ctx) {
  ExpiryOption option = ExpiryOption::kNone;
  Bytes value;
  for (ArgCursor cursor(ctx.args, 2); !cursor.done();) {
    const bool may_persist = option == ExpiryOption::kNone || option == ExpiryOption::kPersist;
    if (may_persist && cursor.take_word("PERSIST")) {
      option = ExpiryOption::kPersist;
    } else if (!take_expiry(cursor, &option, &value)) {
      return syntax_error();
    }
  }
  Strings strings = ctx.strings();
  std::optional<Found> found;
  TRY(strings.locate_for_update(ctx.key(), &found));
  std::optional<std::int64_t> expiry;  // the new expiry
  if (found && option != ExpiryOption::kNone && option != ExpiryOption::kPersist) {
    TRY_ASSIGN(parsed, parse_expiry(ctx, option, value));
    expiry = parsed;
  } else if (found && option == ExpiryOption::kPersist && found->expiry != 0) {
    expiry = 0;
  }
  const bool expires_now = expiry && *expiry != 0 && has_passed(*expiry, ctx.now);
  // Counted before the read: if the value is too long for a loop, a long write reads it.
  if (expiry && !expires_now) TRY(ctx.work(found->length));
  if (found) TRY(strings.read(&*found));
  if (expires_now) strings.remove(ctx.key(), *found);
  if (expiry && !expires_now) strings.set_expiry(ctx.key(), *found, static_cast<Millis>(*expiry));
  reply_value(ctx.reply, found);
  return Status::ok();
}

Status check_pairs(const Ctx& ctx) {
  if (ctx.argc() % 2 == 1) return Status::ok();
  return wrong_arity(ctx.command);
}

Status set_pairs(Ctx& ctx, Strings& strings) {
  bool resident = true;
  for (std::size_t i = 0; i < ctx.keys.size(); ++i) {
    const std::size_t value = 2 * i + 2;
    TRY(ctx.work(ctx.arg(value).size()));
    const Status status = strings.set(ctx.key(i), ctx.arg(value), 0, ctx.shared_arg(value));
    // The loop continues, so that the missing pages of all keys are read together.
    resident &= !status.is_not_resident();
    if (resident) TRY(status);
  }
  return resident ? Status::ok() : Status::not_resident();
}

Status mset(Ctx& ctx) {
  TRY(check_pairs(ctx));
  Strings strings = ctx.strings();
  TRY(set_pairs(ctx, strings));
  ctx.reply.ok();
  return Status::ok();
}

Status msetnx(Ctx& ctx) {
  TRY(check_pairs(ctx));
  Strings strings = ctx.strings();
  bool resident = true, any = false;
  for (const LookupKey& key : ctx.keys) {
    std::optional<Found> old;
    const Status status = strings.locate_any_for_update(key, &old);
    resident &= !status.is_not_resident();
    if (status.is_not_resident()) continue;
    TRY(status);
    any |= old.has_value();
  }
  if (!resident) return Status::not_resident();
  if (!any) TRY(set_pairs(ctx, strings));
  ctx.reply.integer(any ? 0 : 1);
  return Status::ok();
}

Status append(Ctx& ctx) {
  Strings strings = ctx.strings();
  std::optional<Found> old;
  TRY(strings.locate_for_update(ctx.key(), &old));
  const std::size_t before = old ? old->length : 0, size = before + ctx.arg(2).size();
  if (size > kMaxStringBytes) return string_too_long();
  TRY(ctx.work(size));
  TRY(ctx.reserve(size));
  std::string value(size, '\0');
  if (old) TRY(copy_value(ctx, *old, value.data()));
  ctx.arg(2).copy(value.data() + before, ctx.arg(2).size());
  strings.modify(ctx.key(), old, std::move(value), &ctx.charge);
  ctx.reply.integer(static_cast<std::int64_t>(size));
  return Status::ok();
}

Status strlen_(Ctx& ctx) {
  std::optional<Found> found;
  TRY(ctx.strings().locate(ctx.key(), &found));
  ctx.reply.integer(found ? static_cast<std::int64_t>(found->length) : 0);
  return Status::ok();
}

Status getrange(Ctx& ctx) {
  TRY_ASSIGN(start, integer_argument(ctx.arg(2)));
  TRY_ASSIGN(end, integer_argument(ctx.arg(3)));
  Strings strings = ctx.strings();
  std::optional<Found> found;
  TRY(strings.locate(ctx.key(), &found));
  const auto size = static_cast<std::int64_t>(found ? found->length : 0);
  if (size == 0 || (start < 0 && end < 0 && start > end)) {
    ctx.reply.bulk("");
    return Status::ok();
  }
  if (start < 0) start = std::max<std::int64_t>(start + size, 0);
  if (end < 0) end = std::max<std::int64_t>(end + size, 0);
  end = std::min(end, size - 1);
  if (start > end) {
    ctx.reply.bulk("");
    return Status::ok();
  }
  ValuePart part;
  TRY(strings.read_part(*found, static_cast<std::uint64_t>(start), static_cast<std::uint64_t>(end - start + 1), &part));
  reply_bytes(ctx.reply, found->length, part.pin, part.bytes);
  return Status::ok();
}

Status setrange(Ctx& ctx) {
  TRY_ASSIGN(offset, integer_argument(ctx.arg(2)));
  if (offset < 0) return reply_error("ERR offset is out of range");
  Strings strings = ctx.strings();
  std::optional<Found> old;
  TRY(strings.locate_for_update(ctx.key(), &old));
  const Bytes patch = ctx.arg(3);
  std::uint64_t size = old ? old->length : 0;
  if (!patch.empty()) {
    const auto at = static_cast<std::uint64_t>(offset);
    if (at + patch.size() > kMaxStringBytes) return string_too_long();
    size = std::max<std::uint64_t>(size, at + patch.size());
    TRY(ctx.work(size));
    TRY(ctx.reserve(size));
    std::string value(size, '\0');
    if (old) TRY(copy_value(ctx, *old, value.data()));
    patch.copy(value.data() + at, patch.size());
    strings.modify(ctx.key(), old, std::move(value), &ctx.charge);
  }
  ctx.reply.integer(static_cast<std::int64_t>(size));
  return Status::ok();
}

constexpr KeySpec kReadKey = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess};
constexpr KeySpec kUpdateKey = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate};
constexpr KeySpec kOverwriteKey = {.first = 1, .access = KeySpec::kOw | KeySpec::kUpdate};
constexpr auto kUpdate = kWrite | kDenyOom;

// These commands read their keys before they overwrite them: dispatch uses this access, and COMMAND INFO shows Redis's.
constexpr KeySpec kSetnxKeys[] = {{.first = 1, .access = KeySpec::kOw | KeySpec::kInsert}};
constexpr KeySpec kMsetnxKeys[] = {{.first = 1, .last = -1, .step = 2, .access = KeySpec::kOw | KeySpec::kInsert}};

constexpr CommandSpec kStrings[] = {
    {.name = "get",
     .arity = exactly(2),
     .keys = kReadKey,
     .flags = kReadOnly | kFast,
     .run = get,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Returns the string value of a key.",
     .group = Group::kString,
     .arguments = kGetArguments},
    {.name = "set",
     .arity = at_least(3),
     .keys = {.first = 1,
              .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate | KeySpec::kVariableFlags,
              .blind_argc = 3},
     .flags = kUpdate,
     .run = set,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Sets the string value of a key, ignoring its type. The key is created if it doesn't exist.",
     .group = Group::kString,
     .arguments = kSetArguments},
    {.name = "setnx",
     .arity = exactly(3),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kInsert},
     .flags = kUpdate | kFast,
     .run = setnx,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Set the string value of a key only when the key doesn't exist.",
     .group = Group::kString,
     .arguments = kSetnxArguments,
     .key_specs = kSetnxKeys},
    {.name = "setex",
     .arity = exactly(4),
     .keys = kOverwriteKey,
     .flags = kUpdate,
     .run = setex,
     .since = "2.0.0",
     .complexity = "O(1)",
     .summary = "Sets the string value and expiration time of a key. Creates the key if it doesn't exist.",
     .group = Group::kString,
     .arguments = kSetexArguments},
    {.name = "psetex",
     .arity = exactly(4),
     .keys = kOverwriteKey,
     .flags = kUpdate,
     .run = psetex,
     .since = "2.6.0",
     .complexity = "O(1)",
     .summary = "Sets both string value and expiration time in milliseconds of a key. The key is created if it doesn't exist.",
     .group = Group::kString,
     .arguments = kPsetexArguments},
    {.name = "getset",
     .arity = exactly(3),
     .keys = kUpdateKey,
     .flags = kUpdate | kFast,
     .run = getset,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Returns the previous string value of a key after setting it to a new value.",
     .group = Group::kString,
     .arguments = kGetsetArguments},
    {.name = "getdel",
     .arity = exactly(2),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
     .flags = kWrite | kFast,
     .run = getdel,
     .since = "6.2.0",
     .complexity = "O(1)",
     .summary = "Returns the string value of a key after deleting the key.",
     .group = Group::kString,
     .arguments = kGetdelArguments},
    {.name = "getex",
     .arity = at_least(2),
     .keys = kUpdateKey,
     .flags = kWrite | kFast,
     .run = getex,
     .since = "6.2.0",
     .complexity = "O(1)",
     .summary = "Returns the string value of a key after setting its expiration time.",
     .group = Group::kString,
     .arguments = kGetexArguments},
    {.name = "mget",
     .arity = at_least(2),
     .keys = {.first = 1, .last = -1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = mget,
     .since = "1.0.0",
     .complexity = "O(N) where N is the number of keys to retrieve.",
     .summary = "Atomically returns the string values of one or more keys.",
     .group = Group::kString,
     .arguments = kMgetArguments},
    {.name = "mset",
     .arity = at_least(3),
     .keys = {.first = 1, .last = -1, .step = 2, .access = KeySpec::kOw | KeySpec::kUpdate},
     .flags = kUpdate,
     .run = mset,
     .since = "1.0.1",
     .complexity = "O(N) where N is the number of keys to set.",
     .summary = "Atomically creates or modifies the string values of one or more keys.",
     .group = Group::kString,
     .arguments = kMsetArguments},
    {.name = "msetnx",
     .arity = at_least(3),
     .keys = {.first = 1, .last = -1, .step = 2, .access = KeySpec::kRw | KeySpec::kInsert},
     .flags = kUpdate,
     .run = msetnx,
     .since = "1.0.1",
     .complexity = "O(N) where N is the number of keys to set.",
     .summary = "Atomically modifies the string values of one or more keys only when all keys don't exist.",
     .group = Group::kString,
     .arguments = kMsetnxArguments,
     .key_specs = kMsetnxKeys},
    {.name = "append",
     .arity = exactly(3),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kInsert},
     .flags = kUpdate | kFast,
     .run = append,
     .since = "2.0.0",
     .complexity = "O(N) where N is the length of the new value.",
     .summary = "Appends a string to the value of a key. Creates the key if it doesn't exist.",
     .group = Group::kString,
     .arguments = kAppendArguments},
    {.name = "strlen",
     .arity = exactly(2),
     .keys = {.first = 1, .access = KeySpec::kRo},
     .flags = kReadOnly | kFast,
     .run = strlen_,
     .since = "2.2.0",
     .complexity = "O(1)",
     .summary = "Returns the length of a string value.",
     .group = Group::kString,
     .arguments = kStrlenArguments},
    {.name = "getrange",
     .arity = exactly(4),
     .keys = kReadKey,
     .flags = kReadOnly,
     .run = getrange,
     .since = "2.4.0",
     .complexity = "O(N) where N is the length of the returned string.",
     .summary = "Returns a substring of the string stored at a key.",
     .group = Group::kString,
     .arguments = kGetrangeArguments},
    {.name = "substr",
     .arity = exactly(4),
     .keys = kReadKey,
     .flags = kReadOnly,
     .run = getrange,
     .since = "1.0.0",
     .complexity = "O(N) where N is the length of the returned string.",
     .summary = "Returns a substring from a string value.",
     .group = Group::kString,
     .arguments = kSubstrArguments},
    {.name = "setrange",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kUpdate},
     .flags = kUpdate,
     .run = setrange,
     .since = "2.2.0",
     .complexity = "O(N) where N is the length of the new value.",
     .summary = "Overwrites a part of a string value with another by an offset. Creates the key if it doesn't exist.",
     .group = Group::kString,
     .arguments = kSetrangeArguments},
};

}  // namespace

std::span<const CommandSpec> string_commands() { return kStrings; }

}  // namespace ebbtide
