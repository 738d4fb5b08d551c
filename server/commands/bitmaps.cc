// Strings as rows of bits: SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP. Errors and their order are Redis's.
#include <algorithm>
#include <functional>
#include <memory>
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
#include "store/numbers.h"
#include "store/strings.h"

namespace ebbtide {
namespace {

/// Reads a bit of a value. The bit is 0 beyond the value's end, and if the key is missing.
Status read_bit(Ctx& ctx, const std::optional<Found>& found, std::uint64_t position, bool* bit) {
  *bit = false;
  if (!found || position / 8 >= found->length) return Status::ok();
  ValuePart byte;
  TRY(ctx.view.read_part(*found, position / 8, 1, &byte));
  *bit = get_bit(byte.bytes, position % 8);
  return Status::ok();
}

Status setbit(Ctx& ctx) {
  TRY_ASSIGN(offset, bit_offset_argument(ctx.arg(2)));
  const auto bit = parse_integer(ctx.arg(3));
  if (!bit || (*bit != 0 && *bit != 1)) return reply_error("ERR bit is not an integer or out of range");
  Strings strings = ctx.strings();
  std::optional<Found> old;
  TRY(strings.locate_for_update(ctx.key(), &old));
  if (old && old->length <= kValuePieceBytes) TRY(strings.read(&*old));  // read as a whole, since it will probably be written
  bool was = false;
  TRY(read_bit(ctx, old, offset, &was));
  const std::uint64_t before = old ? old->length : 0, size = std::max(before, offset / 8 + 1);
  if (size != before || was != (*bit == 1)) {
    TRY(ctx.work(size));
    TRY(ctx.reserve(size));
    std::string value(size, '\0');
    if (old) TRY(copy_value(ctx, *old, value.data()));
    set_bit(&value, offset, *bit == 1);
    strings.modify(ctx.key(), old, std::move(value), &ctx.charge);
  }
  ctx.reply.integer(was ? 1 : 0);
  return Status::ok();
}

Status getbit(Ctx& ctx) {
  TRY_ASSIGN(offset, bit_offset_argument(ctx.arg(2)));
  std::optional<Found> found;
  TRY(ctx.strings().locate(ctx.key(), &found));
  bool bit = false;
  TRY(read_bit(ctx, found, offset, &bit));
  ctx.reply.integer(bit ? 1 : 0);
  return Status::ok();
}

/// Parses BYTE or BIT. Returns true for BIT.
Result<bool> unit_argument(Bytes word) {
  if (equal_ignoring_case(word, "BIT")) return true;
  if (equal_ignoring_case(word, "BYTE")) return false;
  return syntax_error();
}

/// A range as a client's arguments give it: both ends are included, and negative numbers count from the end.
struct BitRange {
  std::int64_t start = 0, end = 0;

  void clamp(std::int64_t size) {
    if (start < 0) start = std::max<std::int64_t>(size + start, 0);
    if (end < 0) end = std::max<std::int64_t>(size + end, 0);
    end = std::min(end, size - 1);
  }
  [[nodiscard]] bool empty() const { return start > end; }
  /// Return the first and last bit of the range, whose numbers count bits (`in_bits`) or bytes. Require !empty().
  [[nodiscard]] std::uint64_t first(bool in_bits) const { return static_cast<std::uint64_t>(start) * (in_bits ? 1 : 8); }
  [[nodiscard]] std::uint64_t last(bool in_bits) const {
    return in_bits ? static_cast<std::uint64_t>(end) : static_cast<std::uint64_t>(end) * 8 + 7;
  }
};

/// Calls `visit`, in order, with the parts of a value that have the bits [first, last]. `visit` gets the first and last of these
/// bits in the part, and `base`: the index of the part's first bit in the value.
Status visit_bits(Ctx& ctx, const Found& found, std::uint64_t first, std::uint64_t last,
                  const std::function<Status(Bytes piece, std::uint64_t first, std::uint64_t last, std::uint64_t base)>& visit) {
  const std::uint64_t begin = first / 8, bytes = last / 8 - begin + 1;
  TRY(ctx.work(bytes));
  return visit_value(ctx, found, begin, bytes, [&](std::uint64_t at, Bytes piece) {
    const std::uint64_t base = at * 8;
    return visit(piece, std::max(first, base) - base, std::min(last, base + piece.size() * 8 - 1) - base, base);
  });
}

Status bitcount(Ctx& ctx) {
  std::optional<Found> found;
  TRY(ctx.strings().locate(ctx.key(), &found));
  // As in Redis, the arguments of the range are not parsed if the key is missing.
  if (!found) {
    ctx.reply.integer(0);
    return Status::ok();
  }
  const auto size = static_cast<std::int64_t>(found->length);
  BitRange range{0, size - 1};
  bool in_bits = false;
  if (ctx.argc() != 2) {
    if (ctx.argc() != 4 && ctx.argc() != 5) return syntax_error();
    TRY_ASSIGN(start, integer_argument(ctx.arg(2)));
    TRY_ASSIGN(end, integer_argument(ctx.arg(3)));
    if (start < 0 && end < 0 && start > end) {
      ctx.reply.integer(0);
      return Status::ok();
    }
    if (ctx.argc() == 5) {
      TRY_ASSIGN(unit, unit_argument(ctx.arg(4)));
      in_bits = unit;
    }
    range = {start, end};
    range.clamp(in_bits ? size * 8 : size);
  }
  std::uint64_t count = 0;
  if (!range.empty()) {
    TRY(visit_bits(ctx, *found, range.first(in_bits), range.last(in_bits),
                   [&](Bytes piece, std::uint64_t first, std::uint64_t last, std::uint64_t) {
                     count += count_bits(piece, first, last);
                     return Status::ok();
                   }));
  }
  ctx.reply.integer(static_cast<std::int64_t>(count));
  return Status::ok();
}

struct BitposRange {
  BitRange range;
  bool in_bits = false;
  bool has_end = false;  ///< false: the bits after the string's end are searched, too, as zeros
};

Result<BitposRange> bitpos_range(const Ctx& ctx, std::int64_t size) {
  BitposRange out;
  out.range = {0, size - 1};
  if (ctx.argc() == 3) return out;
  if (ctx.argc() > 6) return syntax_error();
  TRY_ASSIGN(start, integer_argument(ctx.arg(3)));
  out.range.start = start;
  if (ctx.argc() == 6) {
    TRY_ASSIGN(unit, unit_argument(ctx.arg(5)));
    out.in_bits = unit;
  }
  if (ctx.argc() >= 5) {
    TRY_ASSIGN(end, integer_argument(ctx.arg(4)));
    out.range.end = end;
    out.has_end = true;
  }
  out.range.clamp(out.in_bits ? size * 8 : size);
  return out;
}

Status bitpos(Ctx& ctx) {
  TRY_ASSIGN(bit, integer_argument(ctx.arg(2)));
  if (bit != 0 && bit != 1) return reply_error("ERR The bit argument must be 1 or 0.");
  std::optional<Found> found;
  TRY(ctx.strings().locate(ctx.key(), &found));
  if (!found) {
    ctx.reply.integer(bit == 1 ? -1 : 0);
    return Status::ok();
  }
  TRY_ASSIGN(where, bitpos_range(ctx, static_cast<std::int64_t>(found->length)));
  std::int64_t position = -1;
  if (!where.range.empty()) {
    const std::uint64_t first = where.range.first(where.in_bits), last = where.range.last(where.in_bits);
    const Status end =
        visit_bits(ctx, *found, first, last, [&](Bytes piece, std::uint64_t from, std::uint64_t until, std::uint64_t base) {
          const auto at = find_bit(piece, from, until, bit == 1);
          if (!at) return Status::ok();
          position = static_cast<std::int64_t>(base + *at);
          return Status::not_found();  // ends visit_bits(); the caller handles kNotFound
        });
    if (end.is_not_found()) {
      // the bit was found, and `position` is set
    } else if (!end.is_ok()) {
      return end;
    } else if (bit == 0 && !where.has_end) {
      position = static_cast<std::int64_t>(last) + 1;
    }
  }
  ctx.reply.integer(position);
  return Status::ok();
}

std::optional<BitOp> bit_op(Bytes name) {
  static constexpr struct {
    Bytes name;
    BitOp op;
  } kOps[] = {{"AND", BitOp::kAnd}, {"OR", BitOp::kOr}, {"XOR", BitOp::kXor}, {"NOT", BitOp::kNot}};
  for (const auto& known : kOps) {
    if (equal_ignoring_case(known.name, name)) return known.op;
  }
  return std::nullopt;
}

/// Locates the strings of all keys but the first, which is the destination.
Status locate_sources(Ctx& ctx, Strings& strings, std::vector<std::optional<Found>>* found) {
  found->resize(ctx.keys.size() - 1);
  bool resident = true;
  for (std::size_t i = 0; i < found->size(); ++i) {
    const Status status = strings.locate_for_update(ctx.key(i + 1), &(*found)[i]);
    resident &= !status.is_not_resident();
    // The loop continues, so that the missing pages of all keys are read together.
    if (resident) TRY(status);
  }
  return resident ? Status::ok() : Status::not_resident();
}

/// Computes the result, which is as long as the longest source. Shorter and missing sources are extended by zero bits.
Status combine_sources(Ctx& ctx, BitOp op, const std::vector<std::optional<Found>>& sources, std::string* result) {
  std::uint64_t longest = 0;
  for (const auto& source : sources) {
    if (!source) continue;
    TRY(ctx.work(source->length));
    longest = std::max(longest, source->length);
  }
  TRY(ctx.reserve(longest));
  result->assign(longest, '\0');
  bool resident = true;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const BitOp step = i == 0 && op != BitOp::kNot ? BitOp::kOr : op;  // the first source is copied
    const std::uint64_t length = sources[i] ? sources[i]->length : 0;
    if (length != 0) {
      const Status status = visit_value(ctx, *sources[i], 0, length, [&](std::uint64_t at, Bytes piece) {
        combine_bits(step, piece, result->data() + at);
        return Status::ok();
      });
      resident &= !status.is_not_resident();
      // The loop continues if pages are missing, so that the missing pages of all sources are read together.
      if (resident) TRY(status);
    }
    if (step == BitOp::kAnd) std::fill(result->begin() + static_cast<std::ptrdiff_t>(length), result->end(), '\0');
  }
  return resident ? Status::ok() : Status::not_resident();
}

Status bitop(Ctx& ctx) {
  const auto op = bit_op(ctx.arg(1));
  if (!op) return syntax_error();
  if (*op == BitOp::kNot && ctx.argc() != 4) {
    return reply_error("ERR BITOP NOT must be called with a single source key.");
  }
  Strings strings = ctx.strings();
  std::vector<std::optional<Found>> found;
  TRY(locate_sources(ctx, strings, &found));
  std::string result;
  TRY(combine_sources(ctx, *op, found, &result));
  ctx.reply.integer(static_cast<std::int64_t>(result.size()));
  if (!result.empty()) return strings.set(ctx.key(0), {}, 0, ctx.share(std::move(result)));
  std::optional<Found> old;
  TRY(strings.locate_any_for_update(ctx.key(0), &old));
  if (old) strings.remove(ctx.key(0), *old);
  return Status::ok();
}

constexpr KeySpec kReadKey = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess};
constexpr KeySpec kBitopKeys[] = {{.first = 2, .access = KeySpec::kOw | KeySpec::kUpdate},
                                  {.first = 3, .last = -1, .access = KeySpec::kRo | KeySpec::kAccess}};

constexpr CommandSpec kBitmaps[] = {
    {.name = "setbit",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate},
     .flags = kWrite | kDenyOom,
     .run = setbit,
     .since = "2.2.0",
     .complexity = "O(N) where N is the length of the string.",
     .summary = "Sets or clears the bit at offset of the string value. Creates the key if it doesn't exist.",
     .group = Group::kBitmap,
     .arguments = kSetbitArguments},
    {.name = "getbit",
     .arity = exactly(3),
     .keys = kReadKey,
     .flags = kReadOnly | kFast,
     .run = getbit,
     .since = "2.2.0",
     .complexity = "O(1)",
     .summary = "Returns a bit value by offset.",
     .group = Group::kBitmap,
     .arguments = kGetbitArguments},
    {.name = "bitcount",
     .arity = at_least(2),
     .keys = kReadKey,
     .flags = kReadOnly,
     .run = bitcount,
     .since = "2.6.0",
     .complexity = "O(N) where N is the length of the range.",
     .summary = "Counts the number of set bits (population counting) in a string.",
     .group = Group::kBitmap,
     .arguments = kBitcountArguments},
    {.name = "bitpos",
     .arity = at_least(3),
     .keys = kReadKey,
     .flags = kReadOnly,
     .run = bitpos,
     .since = "2.8.7",
     .complexity = "O(N) where N is the length of the range.",
     .summary = "Finds the first set (1) or clear (0) bit in a string.",
     .group = Group::kBitmap,
     .arguments = kBitposArguments},
    {.name = "bitop",
     .arity = at_least(4),
     .keys = {.first = 2, .last = -1, .access = KeySpec::kRw},
     .flags = kWrite | kDenyOom,
     .run = bitop,
     .since = "2.6.0",
     .complexity = "O(N) where N is the length of all strings together.",
     .summary = "Performs bitwise operations on multiple strings, and stores the result.",
     .group = Group::kBitmap,
     .arguments = kBitopArguments,
     .key_specs = kBitopKeys},
};

}  // namespace

std::span<const CommandSpec> bitmap_commands() { return kBitmaps; }

}  // namespace ebbtide
