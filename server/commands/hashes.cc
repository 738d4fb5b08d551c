// Hashes: HSET, HGET and the other commands on fields. Errors and their order are Redis's.
//
// A small hash is one entry, which each write replaces as a whole (store/collections.h). In a large hash, commands read and write
// only the fields that they name (commands/large_access.h). Removing a field is a delete, with a delete debt; changing a field's
// value is not. A field that HSET writes loses its expiry (field_expiry.cc).
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "commands/collection_access.h"
#include "commands/families.h"
#include "commands/hashes_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/glob.h"
#include "store/hashes.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

Status find(Ctx& ctx, std::optional<Found>* found, const Wanted& wanted = {}) {
  return find_collection(ctx, ctx.key(), CollectionType::kHash, found, wanted);
}

/// The decoded hash at the command's key, for a command that changes it.
struct OpenHash {
  std::optional<Found> old;
  std::optional<HashEditor> editor;  ///< set by open()
};

Status open(Ctx& ctx, std::size_t changes, const Wanted& wanted, OpenHash* hash) {
  TRY(find_collection_for_update(ctx, ctx.key(), CollectionType::kHash, &hash->old, wanted));
  if (!hash->old) {
    hash->editor.emplace(Hash{}, changes);
    return Status::ok();
  }
  TRY_ASSIGN(fields, decode_hash(hash->old->value));
  hash->editor.emplace(std::move(fields), changes);
  return Status::ok();
}

Status close(Ctx& ctx, OpenHash& hash, Change change) {
  return put_changed(ctx, ctx.key(), hash.old, hash.editor->take(), change);
}

Status set_fields(Ctx& ctx, std::int64_t* added) {
  if (ctx.argc() % 2 == 1) return wrong_arity(ctx.command);
  OpenHash hash;
  TRY(open(ctx, (ctx.argc() - 2) / 2, Wanted::from(2, 2), &hash));
  *added = 0;
  for (std::size_t i = 2; i < ctx.argc(); i += 2) *added += hash.editor->set(ctx.arg(i), ctx.arg(i + 1)) ? 1 : 0;
  return close(ctx, hash, Change::kKeeps);
}

Status hset(Ctx& ctx) {
  std::int64_t added = 0;
  TRY(set_fields(ctx, &added));
  ctx.reply.integer(added);
  return Status::ok();
}

Status hmset(Ctx& ctx) {
  std::int64_t added = 0;
  TRY(set_fields(ctx, &added));
  ctx.reply.ok();
  return Status::ok();
}

Status hsetnx(Ctx& ctx) {
  OpenHash hash;
  TRY(open(ctx, 1, Wanted::one(2), &hash));
  const bool is_new = !hash.editor->find(ctx.arg(2)).has_value();
  if (is_new) {
    hash.editor->set(ctx.arg(2), ctx.arg(3));
    TRY(close(ctx, hash, Change::kKeeps));
  }
  ctx.reply.integer(is_new ? 1 : 0);
  return Status::ok();
}

Status hincrby(Ctx& ctx) {
  TRY_ASSIGN(delta, integer_argument(ctx.arg(3)));
  OpenHash hash;
  TRY(open(ctx, 1, Wanted::one(2), &hash));
  std::int64_t value = 0;
  const HashField* old = hash.editor->look_up(ctx.arg(2));
  const Millis expiry = old == nullptr ? 0 : old->expiry;
  if (old != nullptr) {
    const auto number = parse_integer(old->value);
    if (!number) return reply_error("ERR hash value is not an integer");
    value = *number;
  }
  if (__builtin_add_overflow(value, delta, &value)) return reply_error("ERR increment or decrement would overflow");
  const std::string text = to_text(value);
  hash.editor->set(ctx.arg(2), text, expiry);
  TRY(close(ctx, hash, Change::kKeeps));
  ctx.reply.integer(value);
  return Status::ok();
}

Status hincrbyfloat(Ctx& ctx) {
  TRY_ASSIGN(delta, float_argument(ctx.arg(3)));
  if (std::isinf(delta)) return reply_error("ERR value is NaN or Infinity");
  OpenHash hash;
  TRY(open(ctx, 1, Wanted::one(2), &hash));
  long double value = 0;
  const HashField* old = hash.editor->look_up(ctx.arg(2));
  const Millis expiry = old == nullptr ? 0 : old->expiry;
  if (old != nullptr) {
    const auto number = parse_long_double(old->value);
    if (!number) return reply_error("ERR hash value is not a float");
    value = *number;
  }
  value += delta;
  if (std::isnan(value) || std::isinf(value)) return reply_error("ERR increment would produce NaN or Infinity");
  const std::string text = to_text(value);
  hash.editor->set(ctx.arg(2), text, expiry);
  TRY(close(ctx, hash, Change::kKeeps));
  ctx.reply.bulk(text);
  return Status::ok();
}

Status hdel(Ctx& ctx) {
  OpenHash hash;
  TRY(open(ctx, ctx.argc() - 2, Wanted::from(2), &hash));
  std::int64_t removed = 0;
  for (std::size_t i = 2; i < ctx.argc(); ++i) removed += hash.editor->remove(ctx.arg(i)) ? 1 : 0;
  if (removed != 0) TRY(close(ctx, hash, Change::kRemoves));
  ctx.reply.integer(removed);
  return Status::ok();
}

/// Finds the value of the field at argument 2.
Status find_value(Ctx& ctx, std::optional<Found>* found, std::optional<Bytes>* value) {
  TRY(find(ctx, found, Wanted::one(2)));
  if (!*found) return Status::ok();
  TRY_ASSIGN(read, find_field((*found)->value, ctx.arg(2)));
  *value = read;
  return Status::ok();
}

Status hget(Ctx& ctx) {
  std::optional<Found> found;
  std::optional<Bytes> value;
  TRY(find_value(ctx, &found, &value));
  value ? ctx.reply.bulk(*value) : ctx.reply.null();
  return Status::ok();
}

Status hexists(Ctx& ctx) {
  std::optional<Found> found;
  std::optional<Bytes> value;
  TRY(find_value(ctx, &found, &value));
  ctx.reply.integer(value ? 1 : 0);
  return Status::ok();
}

Status hstrlen(Ctx& ctx) {
  std::optional<Found> found;
  std::optional<Bytes> value;
  TRY(find_value(ctx, &found, &value));
  ctx.reply.integer(value ? static_cast<std::int64_t>(value->size()) : 0);
  return Status::ok();
}

Status hmget(Ctx& ctx) {
  std::optional<Found> found;
  TRY(find(ctx, &found, Wanted::from(2)));
  Hash fields;
  if (found) {
    TRY_ASSIGN(decoded, decode_hash(found->value));
    fields = std::move(decoded);
  }
  const HashEditor hash(std::move(fields), ctx.argc() - 2);
  ctx.reply.array(ctx.argc() - 2);
  for (std::size_t i = 2; i < ctx.argc(); ++i) {
    const auto value = hash.find(ctx.arg(i));
    TRY(ctx.work(value ? value->size() : 0));
    value ? ctx.reply.bulk(*value) : ctx.reply.null();
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

Status hlen(Ctx& ctx) { return reply_count(ctx, CollectionType::kHash); }

enum class Part : std::uint8_t { kFields, kValues, kBoth };

void reply_head(Ctx& ctx, Part part, std::size_t fields) {
  part == Part::kBoth ? ctx.reply.map(fields) : ctx.reply.array(fields);
}

Status reply_field(Ctx& ctx, Part part, Bytes field, Bytes value) {
  if (part != Part::kValues) ctx.reply.bulk(field);
  if (part != Part::kFields) ctx.reply.bulk(value);
  return ctx.reserve_reply();
}

Status reply_all(Ctx& ctx, Part part) {
  std::optional<Found> found;
  TRY(locate_collection(ctx, ctx.key(), CollectionType::kHash, &found));
  if (!found) {
    reply_head(ctx, part, 0);
    return Status::ok();
  }
  if (is_large(found)) {
    TRY_ASSIGN(header, header_of(*found));
    if (const auto count = visited_elements(ctx, header)) {
      reply_head(ctx, part, static_cast<std::size_t>(*count));
      return visit_elements(ctx, *found, header, [&](Bytes field, Bytes value) { return reply_field(ctx, part, field, value); });
    }
    TRY(read_collection(ctx, CollectionType::kHash, &*found));
  }
  TRY_ASSIGN(reader, CompactReader::open(found->value, CollectionType::kHash));
  reply_head(ctx, part, reader.count());
  for (HashField each; reader.next(&each);) TRY(reply_field(ctx, part, each.field, each.value));
  return reader.status();
}

Status hgetall(Ctx& ctx) { return reply_all(ctx, Part::kBoth); }
Status hkeys(Ctx& ctx) { return reply_all(ctx, Part::kFields); }
Status hvals(Ctx& ctx) { return reply_all(ctx, Part::kValues); }

Status hscan(Ctx& ctx) {
  return scan_elements<HashField>(ctx, CollectionType::kHash, 2,
                                  [&ctx](const std::optional<Bytes>& match, const HashField& each) {
                                    if (match && !glob_match(*match, each.field)) return false;
                                    ctx.reply.bulk(each.field);
                                    ctx.reply.bulk(each.value);
                                    return true;
                                  });
}

Status hrandfield(Ctx& ctx) {
  TRY_ASSIGN(wanted, parse_random_count(ctx, "WITHVALUES"));
  std::optional<Found> found;
  TRY(locate_collection(ctx, ctx.key(), CollectionType::kHash, &found));
  if (!found) {
    wanted.given ? ctx.reply.array(0) : ctx.reply.null();
    return Status::ok();
  }
  TRY_ASSIGN(choice, choose_random(ctx, wanted, CollectionType::kHash, &*found));
  TRY_ASSIGN(fields, decode_hash(found->value));
  return reply_random(ctx, wanted, choice, [&](std::size_t place) {
    ctx.reply.bulk(fields[place].field);
    if (wanted.with_values) ctx.reply.bulk(fields[place].value);
  });
}

constexpr CommandSpec kHashes[] = {
    {.name = "hdel",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kDelete},
     .flags = kWrite | kFast,
     .run = hdel,
     .since = "2.0.0",
     .complexity = "O(M) where M is the number of named fields. A hash of up to 128 fields is one entry, which is read whole.",
     .summary = "Deletes one or more fields and their values from a hash. Deletes the hash if no fields remain.",
     .group = Group::kHash,
     .arguments = kHdelArguments,
     .event = {.name = "hdel", .letter = 'h', .before_delete = true}},
    {.name = "hexists",
     .arity = exactly(3),
     .keys = {.first = 1, .access = KeySpec::kRo},
     .flags = kReadOnly | kFast,
     .run = hexists,
     .since = "2.0.0",
     .complexity = "O(M) where M is the number of named fields. A hash of up to 128 fields is one entry, which is read whole.",
     .summary = "Determines whether a field exists in a hash.",
     .group = Group::kHash,
     .arguments = kHexistsArguments},
    {.name = "hget",
     .arity = exactly(3),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = hget,
     .since = "2.0.0",
     .complexity = "O(M) where M is the number of named fields. A hash of up to 128 fields is one entry, which is read whole.",
     .summary = "Returns the value of a field in a hash.",
     .group = Group::kHash,
     .arguments = kHgetArguments},
    {.name = "hgetall",
     .arity = exactly(2),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = hgetall,
     .since = "2.0.0",
     .complexity = "O(N) where N is the size of the hash.",
     .summary = "Returns all fields and values in a hash.",
     .group = Group::kHash,
     .arguments = kHgetallArguments},
    {.name = "hincrby",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate},
     .flags = kWrite | kDenyOom | kFast,
     .run = hincrby,
     .since = "2.0.0",
     .complexity = "O(M) where M is the number of named fields. A hash of up to 128 fields is one entry, which is read whole.",
     .summary =
         "Increments the integer value of a field in a hash by a number. Uses 0 as initial value if the field doesn't exist.",
     .group = Group::kHash,
     .arguments = kHincrbyArguments,
     .event = {.name = "hincrby", .letter = 'h'}},
    {.name = "hincrbyfloat",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate},
     .flags = kWrite | kDenyOom | kFast,
     .run = hincrbyfloat,
     .since = "2.6.0",
     .complexity = "O(M) where M is the number of named fields. A hash of up to 128 fields is one entry, which is read whole.",
     .summary = "Increments the floating point value of a field by a number. Uses 0 as initial value if the field doesn't exist.",
     .group = Group::kHash,
     .arguments = kHincrbyfloatArguments,
     .event = {.name = "hincrbyfloat", .letter = 'h'}},
    {.name = "hkeys",
     .arity = exactly(2),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = hkeys,
     .since = "2.0.0",
     .complexity = "O(N) where N is the size of the hash.",
     .summary = "Returns all fields in a hash.",
     .group = Group::kHash,
     .arguments = kHkeysArguments},
    {.name = "hlen",
     .arity = exactly(2),
     .keys = {.first = 1, .access = KeySpec::kRo},
     .flags = kReadOnly | kFast,
     .run = hlen,
     .since = "2.0.0",
     .complexity = "O(1). Once a field has expired, O(N) where N is the number of fields with an expiry.",
     .summary = "Returns the number of fields in a hash.",
     .group = Group::kHash,
     .arguments = kHlenArguments},
    {.name = "hmget",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = hmget,
     .since = "2.0.0",
     .complexity = "O(M) where M is the number of named fields. A hash of up to 128 fields is one entry, which is read whole.",
     .summary = "Returns the values of all fields in a hash.",
     .group = Group::kHash,
     .arguments = kHmgetArguments},
    {.name = "hmset",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kUpdate},
     .flags = kWrite | kDenyOom | kFast,
     .run = hmset,
     .since = "2.0.0",
     .complexity = "O(M) where M is the number of named fields. A hash of up to 128 fields is one entry, which is read whole.",
     .summary = "Sets the values of multiple fields.",
     .group = Group::kHash,
     .arguments = kHmsetArguments,
     .event = {.name = "hset", .letter = 'h'}},
    {.name = "hrandfield",
     .arity = at_least(2),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = hrandfield,
     .since = "6.2.0",
     .complexity = "O(N) where N is the number of fields between the nearer end and the chosen one. A hash of up to 128 fields "
                   "is one entry, which is read whole.",
     .summary = "Returns one or more random fields from a hash.",
     .group = Group::kHash,
     .arguments = kHrandfieldArguments},
    {.name = "hscan",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = hscan,
     .since = "2.8.0",
     .complexity = "O(1) for each call; O(N) for a whole iteration.",
     .summary = "Iterates over fields and values of a hash.",
     .group = Group::kHash,
     .arguments = kHscanArguments},
    {.name = "hset",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kUpdate},
     .flags = kWrite | kDenyOom | kFast,
     .run = hset,
     .since = "2.0.0",
     .complexity = "O(M) where M is the number of named fields. A hash of up to 128 fields is one entry, which is read whole.",
     .summary = "Creates or modifies the value of a field in a hash.",
     .group = Group::kHash,
     .arguments = kHsetArguments,
     .event = {.name = "hset", .letter = 'h'}},
    {.name = "hsetnx",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kInsert},
     .flags = kWrite | kDenyOom | kFast,
     .run = hsetnx,
     .since = "2.0.0",
     .complexity = "O(M) where M is the number of named fields. A hash of up to 128 fields is one entry, which is read whole.",
     .summary = "Sets the value of a field in a hash only when the field doesn't exist.",
     .group = Group::kHash,
     .arguments = kHsetnxArguments,
     .event = {.name = "hset", .letter = 'h'}},
    {.name = "hstrlen",
     .arity = exactly(3),
     .keys = {.first = 1, .access = KeySpec::kRo},
     .flags = kReadOnly | kFast,
     .run = hstrlen,
     .since = "3.2.0",
     .complexity = "O(M) where M is the number of named fields. A hash of up to 128 fields is one entry, which is read whole.",
     .summary = "Returns the length of the value of a field.",
     .group = Group::kHash,
     .arguments = kHstrlenArguments},
    {.name = "hvals",
     .arity = exactly(2),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = hvals,
     .since = "2.0.0",
     .complexity = "O(N) where N is the size of the hash.",
     .summary = "Returns all values in a hash.",
     .group = Group::kHash,
     .arguments = kHvalsArguments},
};

}  // namespace

std::span<const CommandSpec> hash_commands() { return kHashes; }

}  // namespace ebbtide
