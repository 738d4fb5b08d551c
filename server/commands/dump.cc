// DUMP and RESTORE: values in the form of Redis's RDB files (store/dump.h, store/dump_collections.h).
//
// IDLETIME and FREQ are checked but have no effect: the server does not record when a key was read.
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "commands/collection_access.h"
#include "commands/families.h"
#include "commands/keys_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "dispatch/value_pieces.h"
#include "store/dump.h"
#include "store/dump_collections.h"
#include "store/expiry.h"
#include "store/hashes.h"
#include "store/strings.h"

namespace ebbtide {
namespace {

void reply_payload(Ctx& ctx, std::string built) {
  const SharedValue payload = ctx.share(std::move(built));
  ctx.reply.bulk_shared(payload, *payload);
}

Status dump_located_collection(Ctx& ctx, Found* found) {
  TRY(read_whole(ctx, found));
  TRY(ctx.reserve(most_dump_bytes(found->length)));
  TRY_ASSIGN(payload, dump_collection(found->value));
  reply_payload(ctx, std::move(payload));
  return Status::ok();
}

Status dump(Ctx& ctx) {
  std::optional<Found> found;
  TRY(ctx.strings().locate_any(ctx.key(), &found));
  if (!found) {
    ctx.reply.null();
    return Status::ok();
  }
  if (is_collection(found->kind)) return dump_located_collection(ctx, &*found);
  if (found->length <= kMaxIntegerText) {
    ctx.reply.bulk(dump_string(found->value));
    return Status::ok();
  }
  TRY(ctx.work(found->length));
  TRY(ctx.reserve(found->length + kDumpOverheadBytes));
  std::string built = begin_dump(found->length);
  const std::size_t at = built.size();
  built.resize(at + found->length);
  TRY(copy_value(ctx, *found, built.data() + at));
  end_dump(&built);
  reply_payload(ctx, std::move(built));
  return Status::ok();
}

struct RestoreOptions {
  bool replace = false, absolute = false;
};

Result<RestoreOptions> parse_options(const Ctx& ctx) {
  RestoreOptions options;
  bool idle_time = false, frequency = false;
  for (ArgCursor cursor(ctx.args, 4); !cursor.done();) {
    Bytes value;
    if (cursor.take_word("REPLACE")) {
      options.replace = true;
    } else if (cursor.take_word("ABSTTL")) {
      options.absolute = true;
    } else if (!frequency && cursor.take_option("IDLETIME", &value)) {
      TRY_ASSIGN(seconds, integer_argument(value));
      if (seconds < 0) return reply_error("ERR Invalid IDLETIME value, must be >= 0");
      idle_time = true;
    } else if (!idle_time && cursor.take_option("FREQ", &value)) {
      TRY_ASSIGN(count, integer_argument(value));
      if (count < 0 || count > 255) return reply_error("ERR Invalid FREQ value, must be >= 0 and <= 255");
      frequency = true;
    } else {
      return syntax_error();
    }
  }
  return options;
}

/// Parses the expiry, and returns it as absolute ms; 0: none. If it is too far away, returns `now`: as in Redis, the key then
/// expires at once.
Result<std::int64_t> expiry_argument(const Ctx& ctx, bool absolute) {
  TRY_ASSIGN(ttl, integer_argument(ctx.arg(2)));
  if (ttl < 0) return reply_error("ERR Invalid TTL value, must be >= 0");
  if (ttl == 0) return ttl;
  const ExpiryForm form = {.unit = ExpiryUnit::kMilliseconds, .relative = !absolute};
  return absolute_expiry(ttl, form, ctx.now).value_or(static_cast<std::int64_t>(ctx.now));
}

/// The entry that RESTORE writes.
struct Target {
  std::optional<Found> old;  ///< the key's entry before the command
  Millis expiry = 0;         ///< absolute, in ms; 0 = never
  bool is_expired = false;   ///< the expiry of the key, or of each field of the hash, has passed, so nothing is stored
};

Status bad_format() { return reply_error("ERR Bad data format"); }

Status restore_string(Ctx& ctx, const Target& target) {
  const std::uint64_t bytes = loaded_bytes(ctx.arg(3));
  TRY(ctx.work(bytes));
  TRY(ctx.reserve(bytes));
  auto value = load_string(ctx.arg(3));
  if (!value) return bad_format();
  if (target.is_expired) return Status::ok();
  return ctx.strings().set(ctx.key(), {}, target.expiry, ctx.share(std::move(*value)));
}

/// Removes the expired fields of a hash.
Status drop_expired(Ctx& ctx, std::string* value, Target* target) {
  if (collection_type_of(*value) != CollectionType::kHash) return Status::ok();
  TRY_ASSIGN(hash, decode_hash(*value));
  if (!has_expiries(hash)) return Status::ok();
  const Hash left = without_expired(hash, ctx.now);
  target->is_expired |= left.empty();
  if (left.size() != hash.size()) *value = encode(left);
  return Status::ok();
}

Status restore_collection(Ctx& ctx, Target* target) {
  TRY(collection_work(ctx, ctx.arg(3).size()));
  TRY_ASSIGN(value, load_collection(ctx.arg(3), [&](std::uint64_t bytes) {
               TRY(collection_work(ctx, bytes));
               return ctx.reserve(bytes);
             }));
  TRY(drop_expired(ctx, &value, target));
  if (target->is_expired) return Status::ok();
  return replace_collection(ctx, ctx.view, ctx.key(), target->old, std::move(value), {.expiry = target->expiry});
}

Status restore_value(Ctx& ctx, Target* target) {
  switch (dumped_type(ctx.arg(3))) {
    case DumpedType::kString:
      return restore_string(ctx, *target);
    case DumpedType::kCollection:
      return restore_collection(ctx, target);
    case DumpedType::kUnsupported:
      return reply_error("ERR RESTORE does not support streams, functions, and types of modules");
    case DumpedType::kUnknown:
      break;
  }
  return bad_format();
}

Status restore(Ctx& ctx) {
  TRY_ASSIGN(options, parse_options(ctx));
  Strings strings = ctx.strings();
  Target target;
  TRY(strings.locate_any_for_update(ctx.key(), &target.old));
  if (target.old && !options.replace) return reply_error("BUSYKEY Target key name already exists.");
  TRY_ASSIGN(expiry, expiry_argument(ctx, options.absolute));
  target.expiry = static_cast<Millis>(expiry);
  target.is_expired = expiry != 0 && has_passed(expiry, ctx.now);
  TRY(ctx.work(ctx.arg(3).size()));
  if (!dump_is_sound(ctx.arg(3))) return reply_error("ERR DUMP payload version or checksum are wrong");
  TRY(restore_value(ctx, &target));
  if (target.is_expired && target.old) strings.remove(ctx.key(), *target.old);
  ctx.reply.ok();
  return Status::ok();
}

// RESTORE reads its key before it overwrites it: dispatch uses this access, and COMMAND INFO shows Redis's.
constexpr KeySpec kRestoreKeys[] = {{.first = 1, .access = KeySpec::kOw | KeySpec::kUpdate}};

constexpr CommandSpec kDump[] = {
    {.name = "dump",
     .arity = exactly(2),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = dump,
     .since = "2.6.0",
     .complexity = "O(N) where N is the size of the value.",
     .summary = "Returns a serialized representation of the value stored at a key.",
     .arguments = kDumpArguments},
    {.name = "restore",
     .arity = at_least(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kUpdate},
     .flags = kWrite | kDenyOom | kDangerous,
     .run = restore,
     .since = "2.6.0",
     .complexity = "O(N) where N is the size of the value.",
     .summary = "Creates a key from the serialized representation of a value.",
     .arguments = kRestoreArguments,
     .key_specs = kRestoreKeys},
};

}  // namespace

std::span<const CommandSpec> dump_commands() { return kDump; }

}  // namespace ebbtide
