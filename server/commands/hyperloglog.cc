// PFADD, PFCOUNT, PFMERGE. A sketch that was changed keeps its expiry and its stamp.
//
// PFCOUNT of one key stores its result in the value, as in Redis. So it is a read that may write. If it cannot write, it computes
// the result each time.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/families.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/hyperloglog.h"
#include "store/strings.h"

namespace ebbtide {
namespace {

using Type = ArgDoc::Type;

Status corrupt_sketch() { return reply_error("INVALIDOBJ Corrupted HLL object detected"); }

/// Fails if the key has a value that is not a sketch.
Status check_sketch(const std::optional<Found>& found) {
  if (!found || hll::is_valid(found->value)) return Status::ok();
  return reply_error("WRONGTYPE Key is not a valid HyperLogLog string value.");
}

/// Reads a located value, which must be a sketch. Any value may pretend to be a sketch, so its length counts as work.
Status read_sketch(Ctx& ctx, const Strings& strings, std::optional<Found>* found) {
  if (!*found) return Status::ok();
  TRY(ctx.work((*found)->length));
  TRY(strings.read(&**found));
  return check_sketch(*found);
}

Status pfadd(Ctx& ctx) {
  Strings strings = ctx.strings();
  std::optional<Found> old;
  TRY(strings.locate_for_update(ctx.key(), &old));
  TRY(read_sketch(ctx, strings, &old));
  std::uint64_t bytes = 0;
  for (std::size_t i = 2; i < ctx.argc(); ++i) bytes += ctx.arg(i).size();
  TRY(ctx.work(bytes));
  if (old) TRY(ctx.reserve(old->value.size()));
  std::string value = old ? std::string(old->value) : hll::make_empty();
  bool changed = !old;
  for (std::size_t i = 2; i < ctx.argc(); ++i) {
    const auto raised = hll::add(&value, ctx.arg(i));
    if (!raised) return corrupt_sketch();
    changed |= *raised;
  }
  if (changed) {
    hll::forget_cached_count(&value);
    strings.modify(ctx.key(), old, std::move(value), &ctx.charge);
  }
  ctx.reply.integer(changed ? 1 : 0);
  return Status::ok();
}

Status count_one(Ctx& ctx) {
  Strings strings = ctx.strings();
  std::optional<Found> found;
  TRY(strings.locate(ctx.key(), &found));
  TRY(read_sketch(ctx, strings, &found));
  if (!found) {
    ctx.reply.integer(0);
    return Status::ok();
  }
  auto count = hll::cached_count(found->value);
  if (!count) {
    count = hll::count(found->value);
    if (!count) return corrupt_sketch();
    // PFCOUNT stores its result if no other write of the key can happen in between. On a loop it holds the key's lock; in EXEC
    // off the loop the key has a mark (dispatch/intents.h). It is a read, so it does not store if that would fail or wait.
    if (ctx.may_store_result() && ctx.reserve(found->value.size()).is_ok()) {
      std::string value(found->value);
      hll::set_cached_count(&value, *count);
      ctx.batch.rely_on_expiry(found->expiry);
      strings.modify(ctx.key(), found, std::move(value), &ctx.charge);
    }
  }
  ctx.reply.integer(static_cast<std::int64_t>(*count));
  return Status::ok();
}

/// The union of the sketches of all keys, as registers. A missing key is an empty sketch.
struct Union {
  hll::Registers registers{};
  bool any_dense = false;
};

Status merge_all(Ctx& ctx, Strings& strings, Union* merged) {
  bool resident = true;
  for (const LookupKey& key : ctx.keys) {
    std::optional<Found> found;
    Status status = strings.locate_for_update(key, &found);
    if (status.is_ok()) status = read_sketch(ctx, strings, &found);
    if (ctx.too_long) return status;
    resident &= !status.is_not_resident();
    // The loop continues, so that the missing pages of all keys are read together.
    if (!resident) continue;
    TRY(status);
    if (!found) continue;
    TRY(ctx.work(hll::kRegisters));
    merged->any_dense |= hll::is_dense(found->value);
    if (!hll::merge_into(found->value, &merged->registers)) return corrupt_sketch();
  }
  return resident ? Status::ok() : Status::not_resident();
}

Status pfcount(Ctx& ctx) {
  if (ctx.keys.size() == 1) return count_one(ctx);
  Strings strings = ctx.strings();
  const auto merged = std::make_unique<Union>();
  TRY(merge_all(ctx, strings, merged.get()));
  ctx.reply.integer(static_cast<std::int64_t>(hll::count(merged->registers)));
  return Status::ok();
}

Status pfmerge(Ctx& ctx) {
  Strings strings = ctx.strings();
  const auto merged = std::make_unique<Union>();
  TRY(merge_all(ctx, strings, merged.get()));
  std::optional<Found> old;
  TRY(strings.locate_for_update(ctx.key(0), &old));
  TRY(read_sketch(ctx, strings, &old));
  if (old) TRY(ctx.reserve(old->value.size()));
  std::string value = old ? std::string(old->value) : hll::make_empty();
  if (!hll::raise(&value, merged->registers, merged->any_dense)) return corrupt_sketch();
  hll::forget_cached_count(&value);
  strings.modify(ctx.key(0), old, std::move(value), &ctx.charge);
  ctx.reply.ok();
  return Status::ok();
}

/// PFSELFTEST: adds known elements, and compares the estimates of both encodings, and of a union, with the exact count.
Status pfselftest(Ctx& ctx) {
  constexpr std::uint64_t kElements = 100'000;
  TRY(ctx.work(std::uint64_t{kElements} * 100));  // takes about as long as this many bytes
  constexpr double kAllowed = 4 * 0.0081;         // four standard errors of 16384 registers
  std::string sketches[2] = {hll::make_empty(), hll::make_empty()};
  const auto check = [](std::uint64_t truth, std::optional<std::uint64_t> estimate) {
    const double bound = std::max(1.0, kAllowed * static_cast<double>(truth));
    if (estimate && std::abs(static_cast<double>(*estimate) - static_cast<double>(truth)) <= bound) return Status::ok();
    return reply_error("TESTFAILED Too big error. card:" + std::to_string(truth) +
                       " estimate:" + (estimate ? std::to_string(*estimate) : std::string("none")));
  };
  for (std::uint64_t n = 1, next_check = 1; n <= kElements; ++n) {
    if (!hll::add(&sketches[n % 2], "element:" + std::to_string(n))) return reply_error("TESTFAILED a sketch is corrupt");
    if (n != next_check) continue;
    next_check *= 10;
    hll::Registers both{};
    for (const std::string& sketch : sketches) {
      if (!hll::merge_into(sketch, &both)) return reply_error("TESTFAILED a sketch is corrupt");
    }
    TRY(check(n, hll::count(both)));
    TRY(check(n / 2, hll::count(sketches[0])));
  }
  ctx.reply.ok();
  return Status::ok();
}

constexpr ArgDoc kPfaddArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "element", .type = Type::kString, .flags = ArgDoc::kOptional | ArgDoc::kMultiple},
};
constexpr ArgDoc kPfcountArguments[] = {
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kPfmergeArguments[] = {
    {.name = "destkey", .type = Type::kKey},
    {.name = "sourcekey", .type = Type::kKey, .flags = ArgDoc::kOptional | ArgDoc::kMultiple, .key_spec = 1},
};
constexpr KeySpec kPfmergeKeys[] = {{.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kInsert},
                                    {.first = 2, .last = -1, .access = KeySpec::kRo | KeySpec::kAccess}};

constexpr CommandSpec kHyperLogLog[] = {
    {.name = "pfadd",
     .arity = at_least(2),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kInsert},
     .flags = kWrite | kDenyOom | kFast,
     .run = pfadd,
     .since = "2.8.9",
     .complexity = "O(1) for each element.",
     .summary = "Adds elements to a HyperLogLog key. Creates the key if it doesn't exist.",
     .group = Group::kHyperLogLog,
     .arguments = kPfaddArguments},
    {.name = "pfcount",
     .arity = at_least(2),
     .keys = {.first = 1, .last = -1, .access = KeySpec::kRw | KeySpec::kAccess},
     .flags = kReadOnly | kMayReplicate,
     .run = pfcount,
     .since = "2.8.9",
     .complexity = "O(1) for a single key whose count is still known, else O(N) where N is the number of keys.",
     .summary = "Returns the approximated cardinality of the set(s) observed by the HyperLogLog key(s).",
     .group = Group::kHyperLogLog,
     .arguments = kPfcountArguments},
    {.name = "pfselftest",
     .arity = exactly(1),
     .flags = kAdmin | kOffload,
     .run = pfselftest,
     .since = "2.8.9",
     .complexity = "N/A",
     .summary = "An internal command for testing HyperLogLog values.",
     .group = Group::kHyperLogLog},
    {.name = "pfmerge",
     .arity = at_least(2),
     .keys = {.first = 1, .last = -1, .access = KeySpec::kRw},
     .flags = kWrite | kDenyOom,
     .run = pfmerge,
     .since = "2.8.9",
     .complexity = "O(N) where N is the number of keys.",
     .summary = "Merges one or more HyperLogLog values into a single key.",
     .group = Group::kHyperLogLog,
     .arguments = kPfmergeArguments,
     .key_specs = kPfmergeKeys},
};

}  // namespace

std::span<const CommandSpec> hyperloglog_commands() { return kHyperLogLog; }

}  // namespace ebbtide
