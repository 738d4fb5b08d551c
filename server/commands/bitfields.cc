// BITFIELD and BITFIELD_RO: integers of any width within a string.
//
// All arguments are checked before the first operation. As in Redis, a command that sets or adds first extends the string to its
// furthest field. The string stays extended even if OVERFLOW FAIL refuses every number.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/bit_offset.h"
#include "commands/bitmaps_docs.h"
#include "commands/families.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "dispatch/value_pieces.h"
#include "store/bits.h"
#include "store/strings.h"

namespace ebbtide {
namespace {

struct FieldOp {
  enum class Kind : std::uint8_t { kGet, kSet, kIncrement };
  Kind kind = Kind::kGet;
  BitOverflow overflow = BitOverflow::kWrap;
  BitfieldType type;
  std::uint64_t position = 0;
  std::int64_t number = 0;
};

Result<BitOverflow> overflow_argument(Bytes word) {
  if (equal_ignoring_case(word, "WRAP")) return BitOverflow::kWrap;
  if (equal_ignoring_case(word, "SAT")) return BitOverflow::kSaturate;
  if (equal_ignoring_case(word, "FAIL")) return BitOverflow::kFail;
  return reply_error("ERR Invalid OVERFLOW type specified");
}

/// Takes the name of the operation at the cursor. Fails unless all arguments of the operation follow it.
Result<FieldOp::Kind> take_kind(ArgCursor& cursor) {
  if (cursor.left() >= 3 && cursor.take_word("GET")) return FieldOp::Kind::kGet;
  if (cursor.left() >= 4 && cursor.take_word("SET")) return FieldOp::Kind::kSet;
  if (cursor.left() >= 4 && cursor.take_word("INCRBY")) return FieldOp::Kind::kIncrement;
  return syntax_error();
}

Result<std::vector<FieldOp>> parse_ops(const Ctx& ctx) {
  std::vector<FieldOp> ops;
  BitOverflow overflow = BitOverflow::kWrap;
  for (ArgCursor cursor(ctx.args, 2); !cursor.done();) {
    Bytes word;
    if (cursor.take_option("OVERFLOW", &word)) {
      TRY_ASSIGN(chosen, overflow_argument(word));
      overflow = chosen;
      continue;
    }
    TRY_ASSIGN(kind, take_kind(cursor));
    const auto type = parse_bitfield_type(cursor.take());
    if (!type) {
      return reply_error("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.");
    }
    TRY_ASSIGN(position, bit_offset_argument(cursor.take(), type->bits));
    std::int64_t number = 0;
    if (kind != FieldOp::Kind::kGet) {
      TRY_ASSIGN(given, integer_argument(cursor.take()));
      number = given;
    }
    ops.push_back({.kind = kind, .overflow = overflow, .type = *type, .position = position, .number = number});
  }
  return ops;
}

/// Performs one operation on `value` and writes its reply. Returns true if the field's number has changed.
bool apply(const FieldOp& op, std::string* value, Reply& reply) {
  const std::int64_t old = get_field(*value, op.type, op.position);
  const bool adds = op.kind == FieldOp::Kind::kIncrement;
  const auto number = adds ? add_to_field(op.type, old, op.number, op.overflow) : fit_field(op.type, op.number, op.overflow);
  if (!number) {
    reply.null();
    return false;
  }
  set_field(value, op.type, op.position, *number);
  reply.integer(adds ? *number : old);
  return *number != old;
}

Status get_fields(Ctx& ctx, const std::vector<FieldOp>& ops) {
  std::optional<Found> found;
  TRY(ctx.strings().locate(ctx.key(), &found));
  ctx.reply.array(ops.size());
  bool resident = true;
  for (const FieldOp& op : ops) {
    const std::uint64_t length = found ? found->length : 0, first = std::min(op.position / 8, length);
    const std::uint64_t end = std::min((op.position + op.type.bits + 7) / 8, length);
    ValuePart part;
    const Status status = found ? ctx.view.read_part(*found, first, end - first, &part) : Status::ok();
    resident &= !status.is_not_resident();
    if (!resident) continue;  // the loop continues, so that the missing pages of all fields are read together
    TRY(status);
    ctx.reply.integer(get_field(part.bytes, op.type, op.position % 8));
  }
  return resident ? Status::ok() : Status::not_resident();
}

Status bitfield(Ctx& ctx) {
  TRY_ASSIGN(ops, parse_ops(ctx));
  std::uint64_t end = 0;  // end of the furthest field that an operation writes, in bits
  for (const FieldOp& op : ops) {
    if (op.kind != FieldOp::Kind::kGet) end = std::max(end, op.position + op.type.bits);
  }
  if (end == 0) return get_fields(ctx, ops);
  if (!ctx.command.spec->has(kWrite)) return reply_error("ERR BITFIELD_RO only supports the GET subcommand");
  const std::uint64_t bytes = (end + 7) / 8;
  if (bytes > kMaxStringBytes) return string_too_long();
  Strings strings = ctx.strings();
  std::optional<Found> old;
  TRY(strings.locate_for_update(ctx.key(), &old));
  const std::uint64_t size = std::max(old ? old->length : 0, bytes);
  TRY(ctx.work(size));
  TRY(ctx.reserve(size));
  std::string value(size, '\0');
  if (old) TRY(copy_value(ctx, *old, value.data()));
  // The value is written even if the operations together have changed nothing.
  bool changed = !old || size != old->length;
  ctx.reply.array(ops.size());
  for (const FieldOp& op : ops) {
    if (op.kind == FieldOp::Kind::kGet) {
      ctx.reply.integer(get_field(value, op.type, op.position));
    } else {
      changed |= apply(op, &value, ctx.reply);
    }
  }
  if (changed) strings.modify(ctx.key(), old, std::move(value), &ctx.charge);
  return Status::ok();
}

constexpr CommandSpec kBitfields[] = {
    {.name = "bitfield",
     .arity = at_least(2),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate | KeySpec::kVariableFlags},
     .flags = kWrite | kDenyOom,
     .run = bitfield,
     .since = "3.2.0",
     .complexity = "O(1) for each subcommand, and O(N) for the length of the string if it is written.",
     .summary = "Performs arbitrary bitfield integer operations on strings.",
     .group = Group::kBitmap,
     .arguments = kBitfieldArguments},
    {.name = "bitfield_ro",
     .arity = at_least(2),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kFast,
     .run = bitfield,
     .since = "6.0.0",
     .complexity = "O(1) for each subcommand.",
     .summary = "Performs arbitrary read-only bitfield integer operations on strings.",
     .group = Group::kBitmap,
     .arguments = kBitfieldRoArguments},
};

}  // namespace

std::span<const CommandSpec> bitfield_commands() { return kBitfields; }

}  // namespace ebbtide
