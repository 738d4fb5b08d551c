// Fields of hashes that expire: HEXPIRE, HTTL, HPERSIST and similar commands, HGETDEL, HGETEX, HSETEX. Errors and their order are
// Redis's.
//
// The first expiry makes a hash large (store/collection/large.h), whatever its size. No command sees an expired field.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "commands/collection_access.h"
#include "commands/families.h"
#include "commands/field_expiry_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/expiry.h"
#include "store/hashes.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

/// Replies for one field.
constexpr std::int64_t kNoField = -2, kNoExpiry = -1, kConditionNotMet = 0, kChanged = 1, kDeleted = 2;

/// The latest expiry that a command may set: Redis stores it in 46 bits.
constexpr std::int64_t kLatestExpiry = (std::int64_t{1} << 46) - 1;

/// Parses the expiry of fields. Returns absolute ms, which may be in the past.
Result<Millis> field_expiry_argument(const Ctx& ctx, Bytes text, ExpiryForm form) {
  TRY_ASSIGN(value, integer_argument(text));
  if (value < 0) return reply_error("ERR invalid expire time, must be >= 0");
  const auto expiry = absolute_expiry(value, form, ctx.now);
  if (!expiry || *expiry > kLatestExpiry) {
    return reply_error("ERR invalid expire time in '" + std::string(ctx.command.spec->name) + "' command");
  }
  return static_cast<Millis>(*expiry);
}

/// Checks the word FIELDS in argument `place`, and the number of fields after it. Returns the index of the first field.
Result<std::size_t> first_field(const Ctx& ctx, std::size_t place,
                                const char* bad_number = "ERR Number of fields must be a positive integer") {
  if (place >= ctx.argc() || !equal_ignoring_case(ctx.arg(place), "FIELDS")) {
    return reply_error("ERR Mandatory argument FIELDS is missing or not at the right position");
  }
  if (place + 1 >= ctx.argc()) return wrong_arity(ctx.command);
  TRY_ASSIGN(count, positive_argument(ctx.arg(place + 1), bad_number));
  if (count != ctx.argc() - place - 2) {
    return reply_error("ERR The `numfields` parameter must match the number of arguments");
  }
  return place + 2;
}

/// Reads the fields of a located hash that the arguments from `first` on name.
Status read_fields(Ctx& ctx, std::size_t first, Found* found) {
  return is_large(*found) ? load_elements(ctx, CollectionType::kHash, Wanted::from(first), found) : Status::ok();
}

/// A hash that a command changes.
class FieldChanges {
 public:
  explicit FieldChanges(Ctx& ctx) : ctx_(ctx) {}

  /// Locates the hash. Call it before the arguments are parsed, since WRONGTYPE precedes their errors.
  Status locate() { return locate_collection_for_update(ctx_, ctx_.key(), CollectionType::kHash, &old_); }
  /// Reads the fields that the arguments from `first` on name.
  Status open(std::size_t first, std::size_t step = 1) {
    Hash fields;
    if (old_) {
      if (is_large(old_)) TRY(load_elements(ctx_, CollectionType::kHash, Wanted::from(first, step), &*old_));
      TRY_ASSIGN(decoded, decode_hash(old_->value));
      fields = std::move(decoded);
    }
    editor_.emplace(std::move(fields), ctx_.argc() - first);
    return Status::ok();
  }
  [[nodiscard]] bool exists() const { return old_.has_value(); }
  [[nodiscard]] const HashField* look_up(Bytes field) const { return editor_->look_up(field); }
  void set(Bytes field, Bytes value, Millis expiry) {
    editor_->set(field, value, expiry);
    // If this expiry passes before the commit, the command runs again, and then deletes the field.
    ctx_.batch.rely_on_expiry(expiry);
    changed_ = true;
  }
  /// Sets the expiry of an existing field.
  void set_expiry(Bytes field, Millis expiry) { set(field, editor_->look_up(field)->value, expiry); }
  void remove(Bytes field) { removed_ |= editor_->remove(field); }
  /// Writes the changed fields, if any.
  Status close() {
    if (!changed_ && !removed_) return Status::ok();
    return put_changed(ctx_, ctx_.key(), old_, editor_->take(), removed_ ? Change::kRemoves : Change::kKeeps);
  }

 private:
  Ctx& ctx_;
  std::optional<Found> old_;
  std::optional<HashEditor> editor_;
  bool changed_ = false, removed_ = false;
};

enum class Condition : std::uint8_t { kNone, kNx, kXx, kGt, kLt };

Condition condition_of(Bytes word) {
  constexpr std::pair<Bytes, Condition> kWords[] = {
      {"NX", Condition::kNx}, {"XX", Condition::kXx}, {"GT", Condition::kGt}, {"LT", Condition::kLt}};
  for (const auto& [name, condition] : kWords) {
    if (equal_ignoring_case(word, name)) return condition;
  }
  return Condition::kNone;
}

/// A field without an expiry is treated as if it expired after all others.
bool allows(Condition condition, Millis current, Millis wanted) {
  switch (condition) {
    case Condition::kNx:
      return current == 0;
    case Condition::kXx:
      return current != 0;
    case Condition::kGt:
      return current != 0 && current < wanted;
    case Condition::kLt:
      return current == 0 || current > wanted;
    case Condition::kNone:
      break;
  }
  return true;
}

Status reply_for_each(Ctx& ctx, std::size_t first, std::int64_t number) {
  ctx.reply.array(ctx.argc() - first);
  for (std::size_t i = first; i < ctx.argc(); ++i) ctx.reply.integer(number);
  return ctx.reserve_reply();
}

Status expire_fields(Ctx& ctx, ExpiryForm form) {
  FieldChanges hash(ctx);
  TRY(hash.locate());
  TRY_ASSIGN(expiry, field_expiry_argument(ctx, ctx.arg(2), form));
  const Condition condition = condition_of(ctx.arg(3));
  TRY_ASSIGN(first,
             first_field(ctx, condition == Condition::kNone ? 3 : 4, "ERR Parameter `numFields` should be greater than 0"));
  if (!hash.exists()) return reply_for_each(ctx, first, kNoField);
  TRY(hash.open(first));
  ctx.reply.array(ctx.argc() - first);
  for (std::size_t i = first; i < ctx.argc(); ++i) {
    const HashField* field = hash.look_up(ctx.arg(i));
    std::int64_t reply = kChanged;
    if (field == nullptr) {
      reply = kNoField;
    } else if (!allows(condition, field->expiry, expiry)) {
      reply = kConditionNotMet;
    } else if (expiry <= ctx.now) {
      reply = kDeleted;
      hash.remove(ctx.arg(i));
    } else {
      hash.set_expiry(ctx.arg(i), expiry);
    }
    ctx.reply.integer(reply);
    TRY(ctx.reserve_reply());
  }
  return hash.close();
}

Status hexpire(Ctx& ctx) { return expire_fields(ctx, kInSeconds); }
Status hpexpire(Ctx& ctx) { return expire_fields(ctx, kInMillis); }
Status hexpireat(Ctx& ctx) { return expire_fields(ctx, kAtSecond); }
Status hpexpireat(Ctx& ctx) { return expire_fields(ctx, kAtMilli); }

/// Returns the reply of HTTL and similar commands. Seconds are rounded up.
std::int64_t describe(const HashField* field, ExpiryForm form, Millis now) {
  if (field == nullptr) return kNoField;
  if (field->expiry == 0) return kNoExpiry;
  const auto left = static_cast<std::int64_t>(form.relative ? field->expiry - now : field->expiry);
  return form.unit == ExpiryUnit::kSeconds ? (left + 999) / 1000 : left;
}

Status describe_fields(Ctx& ctx, ExpiryForm form) {
  std::optional<Found> found;
  TRY(locate_collection(ctx, ctx.key(), CollectionType::kHash, &found));
  TRY_ASSIGN(first, first_field(ctx, 2));
  if (!found) return reply_for_each(ctx, first, kNoField);
  TRY(read_fields(ctx, first, &*found));
  TRY_ASSIGN(fields, decode_hash(found->value));
  const HashEditor hash(std::move(fields), ctx.argc() - first);
  ctx.reply.array(ctx.argc() - first);
  for (std::size_t i = first; i < ctx.argc(); ++i) {
    ctx.reply.integer(describe(hash.look_up(ctx.arg(i)), form, ctx.now));
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

Status httl(Ctx& ctx) { return describe_fields(ctx, kInSeconds); }
Status hpttl(Ctx& ctx) { return describe_fields(ctx, kInMillis); }
Status hexpiretime(Ctx& ctx) { return describe_fields(ctx, kAtSecond); }
Status hpexpiretime(Ctx& ctx) { return describe_fields(ctx, kAtMilli); }

Status hpersist(Ctx& ctx) {
  FieldChanges hash(ctx);
  TRY(hash.locate());
  TRY_ASSIGN(first, first_field(ctx, 2));
  if (!hash.exists()) return reply_for_each(ctx, first, kNoField);
  TRY(hash.open(first));
  ctx.reply.array(ctx.argc() - first);
  for (std::size_t i = first; i < ctx.argc(); ++i) {
    const HashField* field = hash.look_up(ctx.arg(i));
    const bool expires = field != nullptr && field->expiry != 0;
    if (expires) hash.set_expiry(ctx.arg(i), 0);
    ctx.reply.integer(field == nullptr ? kNoField : expires ? kChanged : kNoExpiry);
    TRY(ctx.reserve_reply());
  }
  return hash.close();
}

/// Replies with the value of a field; null if there is none.
Status reply_value(Ctx& ctx, const HashField* field) {
  TRY(ctx.work(field == nullptr ? 0 : field->value.size()));
  field == nullptr ? ctx.reply.null() : ctx.reply.bulk(field->value);
  return ctx.reserve_reply();
}

Status hgetdel(Ctx& ctx) {
  FieldChanges hash(ctx);
  TRY(hash.locate());
  TRY_ASSIGN(first, first_field(ctx, 2));
  TRY(hash.open(first));
  ctx.reply.array(ctx.argc() - first);
  for (std::size_t i = first; i < ctx.argc(); ++i) {
    TRY(reply_value(ctx, hash.look_up(ctx.arg(i))));
    hash.remove(ctx.arg(i));
  }
  return hash.close();
}

/// Returns the form of the expiry that follows a word of HGETEX or HSETEX, such as EX; nullopt for other words.
std::optional<ExpiryForm> expiry_form_of(Bytes word) {
  constexpr std::pair<Bytes, ExpiryForm> kWords[] = {
      {"EX", kInSeconds}, {"PX", kInMillis}, {"EXAT", kAtSecond}, {"PXAT", kAtMilli}};
  for (const auto& [name, form] : kWords) {
    if (equal_ignoring_case(word, name)) return form;
  }
  return std::nullopt;
}

Status hgetex(Ctx& ctx) {
  FieldChanges hash(ctx);
  TRY(hash.locate());
  const auto form = expiry_form_of(ctx.arg(2));
  const bool persists = equal_ignoring_case(ctx.arg(2), "PERSIST");
  Millis expiry = 0;
  if (form) {
    TRY_ASSIGN(parsed, field_expiry_argument(ctx, ctx.arg(3), *form));
    expiry = parsed;
  }
  TRY_ASSIGN(first, first_field(ctx, form ? 4 : persists ? 3 : 2));
  TRY(hash.open(first));
  ctx.reply.array(ctx.argc() - first);
  for (std::size_t i = first; i < ctx.argc(); ++i) {
    const HashField* field = hash.look_up(ctx.arg(i));
    TRY(reply_value(ctx, field));
    if (field == nullptr) continue;
    if (form && expiry <= ctx.now) {
      hash.remove(ctx.arg(i));
    } else if (form || (persists && field->expiry != 0)) {
      hash.set_expiry(ctx.arg(i), expiry);
    }
  }
  return hash.close();
}

struct SetOptions {
  std::optional<ExpiryForm> form;
  Millis expiry = 0;
  bool keeps_expiry = false;
  bool only_new = false, only_known = false;  ///< FNX, FXX
  std::size_t first = 0;                      ///< index of the first field
};

/// Checks the arguments of HSETEX from FIELDS, in argument `place`, on. Returns the index of the first field.
Result<std::size_t> first_pair(const Ctx& ctx, std::size_t place) {
  if (place + 3 >= ctx.argc()) return wrong_arity(ctx.command);
  TRY_ASSIGN(count, positive_argument(ctx.arg(place + 1), "ERR invalid number of fields"));
  const std::size_t left = ctx.argc() - place - 2;
  if (left % 2 != 0 || count != left / 2) return wrong_arity(ctx.command);
  return place + 2;
}

Result<SetOptions> parse_set_options(const Ctx& ctx) {
  SetOptions options;
  for (std::size_t i = 2; i < ctx.argc(); ++i) {
    const auto is = [&](Bytes word) { return equal_ignoring_case(ctx.arg(i), word); };
    const auto form = expiry_form_of(ctx.arg(i));
    if (is("FIELDS")) {
      TRY_ASSIGN(first, first_pair(ctx, i));
      options.first = first;
      return options;
    }
    if (form || is("KEEPTTL")) {
      if (options.form || options.keeps_expiry) {
        return reply_error("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified");
      }
      options.form = form;
      options.keeps_expiry = !form;
      if (!form) continue;
      if (++i == ctx.argc()) return reply_error("ERR missing expire time");
      TRY_ASSIGN(expiry, field_expiry_argument(ctx, ctx.arg(i), *form));
      options.expiry = expiry;
    } else if (is("FXX") || is("FNX")) {
      if (options.only_new || options.only_known) {
        return reply_error("ERR Only one of FXX or FNX arguments can be specified");
      }
      (is("FXX") ? options.only_known : options.only_new) = true;
    } else {
      return reply_error("ERR unknown argument: " + std::string(shown(ctx.arg(i))));
    }
  }
  return wrong_arity(ctx.command);  // the option FIELDS is missing
}

Status hsetex(Ctx& ctx) {
  TRY_ASSIGN(options, parse_set_options(ctx));
  FieldChanges hash(ctx);
  TRY(hash.locate());
  TRY(hash.open(options.first, 2));
  bool allowed = true;
  for (std::size_t i = options.first; i < ctx.argc() && (options.only_new || options.only_known); i += 2) {
    allowed &= (hash.look_up(ctx.arg(i)) != nullptr) == options.only_known;
  }
  for (std::size_t i = options.first; i < ctx.argc() && allowed; i += 2) {
    if (options.form && options.expiry <= ctx.now) {
      hash.remove(ctx.arg(i));
      continue;
    }
    const HashField* old = options.keeps_expiry ? hash.look_up(ctx.arg(i)) : nullptr;
    hash.set(ctx.arg(i), ctx.arg(i + 1), old == nullptr ? options.expiry : old->expiry);
  }
  if (allowed) TRY(hash.close());
  ctx.reply.integer(allowed ? 1 : 0);
  return Status::ok();
}

constexpr KeySpec kUpdateKey = {.first = 1, .access = KeySpec::kRw | KeySpec::kUpdate};
constexpr KeySpec kReadKey = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess};

constexpr CommandSpec kFieldExpiry[] = {
    {.name = "hexpire",
     .arity = at_least(6),
     .keys = kUpdateKey,
     .flags = kWrite | kDenyOom | kFast,
     .run = hexpire,
     .since = "7.4.0",
     .complexity = kComplexity,
     .summary = "Set expiry for hash field using relative time to expire (seconds)",
     .group = Group::kHash,
     .arguments = kHexpireArguments,
     .event = {.name = "hexpire", .letter = 'h', .before_delete = true}},
    {.name = "hexpireat",
     .arity = at_least(6),
     .keys = kUpdateKey,
     .flags = kWrite | kDenyOom | kFast,
     .run = hexpireat,
     .since = "7.4.0",
     .complexity = kComplexity,
     .summary = "Set expiry for hash field using an absolute Unix timestamp (seconds)",
     .group = Group::kHash,
     .arguments = kHexpireatArguments,
     .event = {.name = "hexpire", .letter = 'h', .before_delete = true}},
    {.name = "hexpiretime",
     .arity = at_least(5),
     .keys = kReadKey,
     .flags = kReadOnly | kFast,
     .run = hexpiretime,
     .since = "7.4.0",
     .complexity = kComplexity,
     .summary = "Returns the expiration time of a hash field as a Unix timestamp, in seconds.",
     .group = Group::kHash,
     .arguments = kFieldsArguments},
    {.name = "hgetdel",
     .arity = at_least(5),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
     .flags = kWrite | kFast,
     .run = hgetdel,
     .since = "8.0.0",
     .complexity = kComplexity,
     .summary = "Returns the value of a field and deletes it from the hash.",
     .group = Group::kHash,
     .arguments = kFieldsArguments,
     .event = {.name = "hdel", .letter = 'h', .before_delete = true}},
    {.name = "hgetex",
     .arity = at_least(5),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate},
     .flags = kWrite | kFast,
     .run = hgetex,
     .since = "8.0.0",
     .complexity = kComplexity,
     .summary = "Get the value of one or more fields of a given hash key, and optionally set their expiration.",
     .group = Group::kHash,
     .arguments = kHgetexArguments,
     .event = {.name = "hexpire", .letter = 'h', .before_delete = true}},
    {.name = "hpersist",
     .arity = at_least(5),
     .keys = kUpdateKey,
     .flags = kWrite | kFast,
     .run = hpersist,
     .since = "7.4.0",
     .complexity = kComplexity,
     .summary = "Removes the expiration time for each specified field",
     .group = Group::kHash,
     .arguments = kFieldsArguments,
     .event = {.name = "hpersist", .letter = 'h'}},
    {.name = "hpexpire",
     .arity = at_least(6),
     .keys = kUpdateKey,
     .flags = kWrite | kDenyOom | kFast,
     .run = hpexpire,
     .since = "7.4.0",
     .complexity = kComplexity,
     .summary = "Set expiry for hash field using relative time to expire (milliseconds)",
     .group = Group::kHash,
     .arguments = kHpexpireArguments,
     .event = {.name = "hexpire", .letter = 'h', .before_delete = true}},
    {.name = "hpexpireat",
     .arity = at_least(6),
     .keys = kUpdateKey,
     .flags = kWrite | kDenyOom | kFast,
     .run = hpexpireat,
     .since = "7.4.0",
     .complexity = kComplexity,
     .summary = "Set expiry for hash field using an absolute Unix timestamp (milliseconds)",
     .group = Group::kHash,
     .arguments = kHpexpireatArguments,
     .event = {.name = "hexpire", .letter = 'h', .before_delete = true}},
    {.name = "hpexpiretime",
     .arity = at_least(5),
     .keys = kReadKey,
     .flags = kReadOnly | kFast,
     .run = hpexpiretime,
     .since = "7.4.0",
     .complexity = kComplexity,
     .summary = "Returns the expiration time of a hash field as a Unix timestamp, in msec.",
     .group = Group::kHash,
     .arguments = kFieldsArguments},
    {.name = "hpttl",
     .arity = at_least(5),
     .keys = kReadKey,
     .flags = kReadOnly | kFast,
     .run = hpttl,
     .since = "7.4.0",
     .complexity = kComplexity,
     .summary = "Returns the TTL in milliseconds of a hash field.",
     .group = Group::kHash,
     .arguments = kFieldsArguments},
    {.name = "hsetex",
     .arity = at_least(6),
     .keys = kUpdateKey,
     .flags = kWrite | kDenyOom | kFast,
     .run = hsetex,
     .since = "8.0.0",
     .complexity = kComplexity,
     .summary = "Set the value of one or more fields of a given hash key, and optionally set their expiration.",
     .group = Group::kHash,
     .arguments = kHsetexArguments,
     .event = {.name = "hset", .letter = 'h', .before_delete = true}},
    {.name = "httl",
     .arity = at_least(5),
     .keys = kReadKey,
     .flags = kReadOnly | kFast,
     .run = httl,
     .since = "7.4.0",
     .complexity = kComplexity,
     .summary = "Returns the TTL in seconds of a hash field.",
     .group = Group::kHash,
     .arguments = kFieldsArguments},
};

}  // namespace

std::span<const CommandSpec> field_expiry_commands() { return kFieldExpiry; }

}  // namespace ebbtide
