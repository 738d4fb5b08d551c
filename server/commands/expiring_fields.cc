#include "commands/expiring_fields.h"

#include <algorithm>
#include <vector>

#include "commands/large_part.h"
#include "dispatch/random.h"

namespace ebbtide {
namespace {

/// A write counts the fields with an expiry again if the header counts n <= kCountedAtOnce of them. For a larger n, it does so
/// with probability kCountedAtOnce / n. So it visits at most this many fields on average.
constexpr std::uint64_t kCountedAtOnce = 128;

std::uint64_t persistent_fields(const Hash& hash) {
  return static_cast<std::uint64_t>(
      std::count_if(hash.begin(), hash.end(), [](const HashField& field) { return field.expiry == 0; }));
}

void note_expiry(Millis expiry, FieldExpiries* expiries) {
  if (expiry == 0) return;
  expiries->soonest = expiries->soonest == 0 ? expiry : std::min(expiries->soonest, expiry);
  expiries->latest = std::max(expiries->latest, expiry);
}

/// Returns the range of the elements for fields that have not expired.
ElementRange live_fields(const Ctx& ctx, bool from_end) {
  return {.which = ElementClass::kExpiry, .first = expiry_name(ctx.view.now() + 1), .from_end = from_end};
}

/// Walks over the fields with an expiry that has not passed, without some given fields.
class OtherFields {
 public:
  /// `without`: the fields to skip.
  OtherFields(Ctx& ctx, const Found& found, const LargeHeader& header, const Hash& without, bool from_end)
      : keys_(found.key, header.generation), walk_(ctx, keys_, live_fields(ctx, from_end)) {
    for (const HashField& field : without) {
      if (field.expiry != 0) without_.push_back(field.field);
    }
    std::sort(without_.begin(), without_.end());
  }

  Status begin() {
    TRY(walk_.begin());
    return pass_over();
  }
  Status next() {
    TRY(walk_.next());
    return pass_over();
  }
  [[nodiscard]] bool valid() const { return walk_.valid(); }
  [[nodiscard]] Millis expiry() const { return walk_.expiry(); }

 private:
  Status pass_over() {
    while (walk_.valid()) {
      const auto field = expiring_field_of(walk_.name());
      if (!field) return Status::corruption("a hash has an element with a damaged expiry");
      if (!std::binary_search(without_.begin(), without_.end(), field->field)) break;
      TRY(walk_.next());
    }
    return Status::ok();
  }

  std::vector<Bytes> without_;
  ElementKeys keys_;
  ElementWalk walk_;
};

/// Considers the fields with an expiry that are not in `before`. If one of them expires after `*latest`, sets `*latest` to their
/// last expiry. `was`: the last expiry of all fields, if the header has it. `others`: the number of fields with an expiry that
/// are not in `before`, if it is known. If `others` is small, visits the fields from the earliest expiry on. Otherwise begins at
/// the latest expiry, where it has to skip tombstones of removed fields.
Status find_latest(Ctx& ctx, const Found& old, const Hash& before, const LargeHeader& header, Millis was,
                   std::optional<std::uint64_t> others, Millis* latest) {
  if (was != 0 && *latest >= was) return Status::ok();
  const bool may_be_gone =
      was == 0 || std::any_of(before.begin(), before.end(), [was](const HashField& field) { return field.expiry == was; });
  if (!may_be_gone) {
    *latest = was;
    return Status::ok();
  }
  const bool few = others && *others <= kCountedAtOnce;
  OtherFields fields(ctx, old, header, before, !few);
  TRY(fields.begin());
  for (std::uint64_t left = few ? *others : 1; left > 0 && fields.valid(); --left) {
    *latest = std::max(*latest, fields.expiry());
    if (left > 1) TRY(fields.next());
  }
  return Status::ok();
}

/// Returns true if this write counts the fields with an expiry again. `counted`: how many of them the header counts.
bool counts_again(const Ctx& ctx, std::uint64_t counted) {
  std::uint64_t random = ctx.random;
  return counted <= kCountedAtOnce || next_random(&random) % counted < kCountedAtOnce;
}

}  // namespace

std::optional<FieldExpiries> expiries_of(const Hash& hash) {
  FieldExpiries expiries{.persistent = persistent_fields(hash)};
  if (expiries.persistent == hash.size()) return std::nullopt;
  for (const HashField& field : hash) note_expiry(field.expiry, &expiries);
  if (expiries.persistent != 0) expiries.latest = 0;
  return expiries;
}

Result<std::uint64_t> live_count(Ctx& ctx, const Found& found, const LargeHeader& header) {
  if (!header.counts_expired(ctx.view.now())) return header.count;
  std::uint64_t count = header.expiries->persistent;
  OtherFields fields(ctx, found, header, {}, false);
  TRY(fields.begin());
  for (; fields.valid(); ++count) TRY(fields.next());
  return count;
}

Status note_changed_fields(Ctx& ctx, const Found& old, const Hash& before, const Hash& after, LargeHeader* header) {
  const FieldExpiries was = header->expiries.value_or(FieldExpiries{.persistent = header->count});
  FieldExpiries now = was;
  const std::uint64_t kept = persistent_fields(after);
  if (header->count + after.size() < before.size() || was.persistent + kept < persistent_fields(before)) {
    return Status::corruption("the header of a hash counts too few fields");
  }
  header->count += after.size() - before.size();
  now.persistent += kept - persistent_fields(before);
  FieldExpiries written;  // FieldExpiries of the fields in `after`
  for (const HashField& field : after) note_expiry(field.expiry, &written);

  const std::uint64_t counted = header->count - now.persistent, expiring = after.size() - kept;
  if (counted == expiring) {
    now.soonest = written.soonest;
    now.latest = written.latest;
  } else if (now.soonest <= ctx.view.now() && counts_again(ctx, counted)) {
    header->count = now.persistent + expiring;
    now.soonest = written.soonest;
    now.latest = written.latest;
    OtherFields others(ctx, old, *header, before, false);
    TRY(others.begin());
    for (; others.valid(); ++header->count) {
      note_expiry(others.expiry(), &now);
      TRY(others.next());
    }
  } else {
    const bool exact = now.soonest > ctx.view.now();
    note_expiry(written.soonest, &now);
    now.latest = written.latest;
    const auto others = exact ? std::optional(counted - expiring) : std::nullopt;
    if (now.persistent == 0) TRY(find_latest(ctx, old, before, *header, was.latest, others, &now.latest));
    if (now.persistent == 0 && now.latest == 0) header->count = 0;  // all fields that the header counts have expired
  }
  if (now.persistent != 0) now.latest = 0;
  header->expiries = header->count == now.persistent ? std::nullopt : std::optional(now);
  return Status::ok();
}

}  // namespace ebbtide
