// LCS. The command may take seconds, so it runs on an offload thread.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "commands/families.h"
#include "commands/strings_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/lcs.h"
#include "store/strings.h"

namespace ebbtide {
namespace {

struct LcsOptions {
  bool length = false, indexes = false, with_lengths = false;
  std::int64_t min_length = 0;
};

Result<LcsOptions> parse_options(const Ctx& ctx) {
  LcsOptions options;
  for (ArgCursor cursor(ctx.args, 3); !cursor.done();) {
    Bytes value;
    if (cursor.take_word("IDX")) {
      options.indexes = true;
    } else if (cursor.take_word("LEN")) {
      options.length = true;
    } else if (cursor.take_word("WITHMATCHLEN")) {
      options.with_lengths = true;
    } else if (cursor.take_option("MINMATCHLEN", &value)) {
      TRY_ASSIGN(number, integer_argument(value));
      options.min_length = number;
    } else {
      return syntax_error();
    }
  }
  if (options.length && options.indexes) {
    return reply_error("ERR If you want both the length and indexes, please just use IDX.");
  }
  return options;
}

void reply_range(Reply& reply, std::uint32_t start, std::uint32_t end) {
  reply.array(2);
  reply.integer(start);
  reply.integer(end);
}

Status reply_matches(Ctx& ctx, const Lcs& found, const LcsOptions& options) {
  Reply& reply = ctx.reply;
  reply.map(2);
  reply.bulk("matches");
  const std::uint64_t hole = reply.begin_array();
  std::size_t shown_matches = 0;
  for (const LcsMatch& match : found.matches) {
    if (match.length() < options.min_length) continue;
    reply.array(options.with_lengths ? 3 : 2);
    reply_range(reply, match.a_start, match.a_end);
    reply_range(reply, match.b_start, match.b_end);
    if (options.with_lengths) reply.integer(match.length());
    TRY(ctx.reserve_reply());
    ++shown_matches;
  }
  reply.end_array(hole, shown_matches);
  reply.bulk("len");
  reply.integer(found.length);
  return Status::ok();
}

/// Memory of the two rows of lengths in bytes, for each byte of the second text.
constexpr std::uint64_t kLcsRowBytes = 2 * sizeof(std::uint32_t);

/// The most pairs of bytes that LCS compares inside EXEC, which keeps its loop busy: some tens of milliseconds of work.
constexpr std::uint64_t kMaxInlineCells = std::uint64_t{16} << 20;

/// Returns the most memory that lcs_length() or lcs() allocates, in bytes.
std::uint64_t lcs_bytes(std::uint64_t a, std::uint64_t b, bool only_length) {
  const std::uint64_t rows = kLcsRowBytes * (b + 1);
  if (only_length) return rows;
  return rows + lcs_cells(a, b) / 8 + std::min(a, b) * (1 + 2 * sizeof(LcsMatch));
}

Status lcs_command(Ctx& ctx) {
  Strings strings = ctx.strings();
  std::optional<Found> a, b;
  const Status first = strings.locate_any(ctx.key(0), &a);
  const Status second = strings.locate_any(ctx.key(1), &b);
  TRY(first);
  TRY(second);
  if ((a && a->kind != EntryKind::kValue) || (b && b->kind != EntryKind::kValue)) {
    return reply_error("ERR The specified keys must contain string values");
  }
  TRY_ASSIGN(options, parse_options(ctx));
  const std::size_t a_size = a ? a->length : 0, b_size = b ? b->length : 0;
  if (ctx.in_exec() && lcs_cells(a_size, b_size) > kMaxInlineCells) {
    return reply_error("ERR LCS inside a transaction compares at most " + std::to_string(kMaxInlineCells) + " pairs of bytes");
  }
  if (lcs_cells(a_size, b_size) > kMaxLcsCells) {
    return reply_error("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
  }
  TRY(ctx.work(lcs_cells(a_size, b_size)));  // comparing a pair of bytes takes about a nanosecond
  if (a) TRY(strings.read(&*a));
  if (b) TRY(strings.read(&*b));
  const Bytes a_text = a ? a->value : Bytes(), b_text = b ? b->value : Bytes();
  TRY(ctx.reserve(lcs_bytes(a_size, b_size, options.length)));
  if (options.length) {
    ctx.reply.integer(lcs_length(a_text, b_text));
  } else if (options.indexes) {
    TRY(reply_matches(ctx, lcs(a_text, b_text), options));
  } else {
    const SharedValue text = ctx.share(std::move(lcs(a_text, b_text).text));
    ctx.reply.bulk_shared(text, *text);
  }
  return Status::ok();
}

constexpr CommandSpec kLcs[] = {
    {.name = "lcs",
     .arity = at_least(3),
     .keys = {.first = 1, .last = 2, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly | kOffload | kLong,
     .run = lcs_command,
     .since = "7.0.0",
     .complexity = "O(N*M) where N and M are the lengths of the two strings.",
     .summary = "Returns the longest common subsequence of two strings, its length, or where it lies.",
     .group = Group::kString,
     .arguments = kLcsArguments},
};

}  // namespace

std::span<const CommandSpec> lcs_commands() { return kLcs; }

}  // namespace ebbtide
