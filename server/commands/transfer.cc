// Commands that copy or move a key's value, expiry and stamp to another key: RENAME, RENAMENX, COPY, MOVE.
//
// A source key that is removed is deleted as by DEL. COPY and MOVE may name another database. On a loop, these commands hold all
// locks; off the loop, they set marks on their keys in both databases (dispatch/intents.h).
#include <limits>
#include <optional>
#include <string>

#include "commands/collection_access.h"
#include "commands/families.h"
#include "commands/keys_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/strings.h"

namespace ebbtide {
namespace {

Status no_such_key() { return reply_error("ERR no such key"); }
Status same_object() { return reply_error("ERR source and destination objects are the same"); }

/// Looks up two keys, and reads the missing pages of both together.
Status locate_both(Strings& source, const LookupKey& from, std::optional<Found>* value, Strings& target, const LookupKey& to,
                   std::optional<Found>* old) {
  const Status first = source.locate_any_for_update(from, value);
  const Status second = target.locate_any_for_update(to, old);
  TRY(first);
  return second;
}

/// Sets `to`, in the database of `view`, to a located entry of the command's database. It replaces an entry of any type.
Status put_copy(Ctx& ctx, const ReadView& view, const LookupKey& to, Found* value) {
  Strings source = ctx.strings(), target = ctx.strings_in(view);
  if (value->kind != EntryKind::kHeader) {
    TRY(ctx.work(value->length));
    TRY(source.read(value));
    return target.put_copy(to, *value, source.stamp_mode());
  }
  std::optional<Found> old;
  TRY(target.locate_any_for_update(to, &old));
  TRY(read_whole(ctx, value));
  WriteBatch::PutOptions options{.expiry = key_expiry(*value)};
  const bool explicit_stamps = source.stamp_mode() == StampMode::kExplicit && target.stamp_mode() == StampMode::kExplicit;
  if (explicit_stamps) options.stamp = value->stamp;
  return replace_collection(ctx, view, to, old, std::string(value->value), options);
}

Status rename_generic(Ctx& ctx, bool only_if_absent) {
  Strings strings = ctx.strings();
  std::optional<Found> value, old;
  if (only_if_absent) {
    TRY(locate_both(strings, ctx.key(0), &value, strings, ctx.key(1), &old));
  } else {
    TRY(strings.locate_any_for_update(ctx.key(0), &value));
  }
  if (!value) return no_such_key();
  if (only_if_absent && old) {
    ctx.reply.integer(0);
    return Status::ok();
  }
  if (ctx.key(0).key != ctx.key(1).key) {
    TRY(put_copy(ctx, ctx.view, ctx.key(1), &*value));
    strings.remove(ctx.key(0), *value);
  }
  only_if_absent ? ctx.reply.integer(1) : ctx.reply.ok();
  return Status::ok();
}

Status rename(Ctx& ctx) { return rename_generic(ctx, false); }
Status renamenx(Ctx& ctx) { return rename_generic(ctx, true); }

Result<DatabaseId> database_argument(const Ctx& ctx, Bytes text) {
  using Int = std::numeric_limits<std::int32_t>;
  TRY_ASSIGN(number, integer_argument_in(text, Int::min(), Int::max()));
  if (number < 0 || number >= static_cast<std::int64_t>(ctx.server().databases()))
    return reply_error("ERR DB index is out of range");
  return static_cast<DatabaseId>(number);
}

Status move(Ctx& ctx) {
  TRY_ASSIGN(database, database_argument(ctx, ctx.arg(2)));
  if (database == ctx.view.database()) return same_object();
  const ReadView other = ctx.view_of(database);
  Strings strings = ctx.strings();
  Strings target = ctx.strings_in(other);
  std::optional<Found> value, old;
  TRY(locate_both(strings, ctx.key(), &value, target, ctx.key(), &old));
  const bool moves = value && !old;
  if (moves) {
    TRY(put_copy(ctx, other, ctx.key(), &*value));
    strings.remove(ctx.key(), *value);
  }
  ctx.reply.integer(moves ? 1 : 0);
  return Status::ok();
}

Status copy(Ctx& ctx) {
  bool replace = false;
  DatabaseId database = ctx.view.database();
  for (ArgCursor cursor(ctx.args, 3); !cursor.done();) {
    Bytes value;
    if (cursor.take_word("REPLACE")) {
      replace = true;
    } else if (cursor.take_option("DB", &value)) {
      TRY_ASSIGN(number, database_argument(ctx, value));
      database = number;
    } else {
      return syntax_error();
    }
  }
  if (database == ctx.view.database() && ctx.key(0).key == ctx.key(1).key) return same_object();
  const ReadView other = ctx.view_of(database);
  Strings strings = ctx.strings();
  Strings target = ctx.strings_in(other);
  std::optional<Found> value, old;
  TRY(locate_both(strings, ctx.key(0), &value, target, ctx.key(1), &old));
  const bool copies = value && (!old || replace);
  if (copies) TRY(put_copy(ctx, other, ctx.key(1), &*value));
  ctx.reply.integer(copies ? 1 : 0);
  return Status::ok();
}

constexpr std::uint16_t kSource = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete;
constexpr KeySpec kRenameKeys[] = {{.first = 1, .access = kSource}, {.first = 2, .access = KeySpec::kOw | KeySpec::kUpdate}};
constexpr KeySpec kRenamenxKeys[] = {{.first = 1, .access = kSource}, {.first = 2, .access = KeySpec::kOw | KeySpec::kInsert}};
constexpr KeySpec kCopyKeys[] = {{.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
                                 {.first = 2, .access = KeySpec::kOw | KeySpec::kUpdate}};
constexpr KeySpec kBoth = {.first = 1, .last = 2, .access = KeySpec::kRw};

constexpr CommandSpec kTransfers[] = {
    {.name = "rename",
     .arity = exactly(3),
     .keys = kBoth,
     .flags = kWrite,
     .run = rename,
     .since = "1.0.0",
     .complexity = "O(N) where N is the size of the value.",
     .summary = "Renames a key and overwrites the destination.",
     .arguments = kRenameArguments,
     .key_specs = kRenameKeys},
    {.name = "renamenx",
     .arity = exactly(3),
     .keys = kBoth,
     .flags = kWrite | kFast,
     .run = renamenx,
     .since = "1.0.0",
     .complexity = "O(N) where N is the size of the value.",
     .summary = "Renames a key only when the target key name doesn't exist.",
     .arguments = kRenameArguments,
     .key_specs = kRenamenxKeys},
    {.name = "move",
     .arity = exactly(3),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate},
     .flags = kWrite | kFast | kLockAll,
     .run = move,
     .since = "1.0.0",
     .complexity = "O(N) where N is the size of the value.",
     .summary = "Moves a key to another database.",
     .arguments = kMoveArguments},
    {.name = "copy",
     .arity = at_least(3),
     .keys = kBoth,
     .flags = kWrite | kDenyOom | kLockAll,
     .run = copy,
     .since = "6.2.0",
     .complexity = "O(N) where N is the size of the value.",
     .summary = "Copies the value of a key to a new key.",
     .arguments = kCopyArguments,
     .key_specs = kCopyKeys},
};

}  // namespace

std::span<const CommandSpec> transfer_commands() { return kTransfers; }

}  // namespace ebbtide
