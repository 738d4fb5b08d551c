#include "commands/collection_access.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_set>

#include "commands/expiring_fields.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/growing_charge.h"
#include "dispatch/random.h"
#include "dispatch/scan_cursors.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

/// Bytes reserved for each argument of a write: its view, and half an entry of an index. An index entry needs two arguments, such
/// as field and value.
constexpr std::size_t kArgumentBytes = 64;
/// The COUNT of HSCAN, SSCAN and ZSCAN if none is given, as in Redis.
constexpr std::uint64_t kScanCount = 10;

}  // namespace

Status read_collection(Ctx& ctx, CollectionType type, Found* found, const Wanted& wanted) {
  if (found->kind == EntryKind::kHeader) return load_elements(ctx, type, wanted, found);
  TRY(collection_work(ctx, found->length));
  return ctx.collections().read(type, found);
}

Status read_whole(Ctx& ctx, Found* found) {
  if (found->kind != EntryKind::kHeader) {
    TRY(collection_work(ctx, found->length));
    return ctx.strings().read(found);
  }
  TRY_ASSIGN(header, header_of(*found));
  return load_elements(ctx, header.type, {}, found);
}

Result<Bytes> encoding_of(Ctx& ctx, Found* found) {
  if (!is_collection(found->kind)) return string_encoding(*found);
  if (found->kind == EntryKind::kHeader) return encoding_of_large(ctx, *found);
  TRY(read_whole(ctx, found));
  return collection_encoding(found->value);
}

namespace {

/// Reads a small collection. Of a large collection, only checks the type.
Status read_small(Ctx& ctx, CollectionType type, Found* found) {
  if (found->kind != EntryKind::kHeader) return read_collection(ctx, type, found);
  return check_collection(*found, type);
}

}  // namespace

Status locate_collection(Ctx& ctx, const LookupKey& key, CollectionType type, std::optional<Found>* found) {
  TRY(ctx.collections().locate(key, found));
  return *found ? read_small(ctx, type, &**found) : Status::ok();
}

Status locate_collection_for_update(Ctx& ctx, const LookupKey& key, CollectionType type, std::optional<Found>* found) {
  TRY(ctx.reserve(ctx.argc() * kArgumentBytes));
  TRY(ctx.collections().locate_for_update(key, found));
  return *found ? read_small(ctx, type, &**found) : Status::ok();
}

Status find_collection(Ctx& ctx, const LookupKey& key, CollectionType type, std::optional<Found>* found, const Wanted& wanted) {
  TRY(ctx.collections().locate(key, found));
  return *found ? read_collection(ctx, type, &**found, wanted) : Status::ok();
}

Status find_collection_for_update(Ctx& ctx, const LookupKey& key, CollectionType type, std::optional<Found>* found,
                                  const Wanted& wanted) {
  TRY(ctx.reserve(ctx.argc() * kArgumentBytes));
  TRY(ctx.collections().locate_for_update(key, found));
  return *found ? read_collection(ctx, type, &**found, wanted) : Status::ok();
}

Status locate_entries(Ctx& ctx, std::span<const LookupKey> keys, std::vector<std::optional<Found>>* found) {
  Strings strings = ctx.strings();
  const bool writes = ctx.command.spec->has(kWrite);
  found->resize(keys.size());
  GrowingCharge copies(ctx);
  bool resident = true;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Status status =
        writes ? strings.locate_any_for_update(keys[i], &(*found)[i]) : strings.locate_any(keys[i], &(*found)[i]);
    resident &= !status.is_not_resident();
    if (resident) TRY(status);
    // A leased view copies small values, since their page or memtable may leave memory while the command runs.
    const std::optional<Found>& each = (*found)[i];
    if (ctx.off_loop != nullptr && each && each->pin != nullptr && each->value.size() <= kLargeValueBytes)
      TRY(copies.add(each->value.size()));
  }
  return resident ? Status::ok() : Status::not_resident();
}

namespace {

/// Returns for each key the index of the first equal key: its own index, unless an earlier key is equal.
std::vector<std::uint32_t> first_places(std::span<const LookupKey> keys) {
  std::vector<std::uint32_t> order(keys.size()), first(keys.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&keys](std::uint32_t a, std::uint32_t b) {
    return std::tie(keys[a].hash, keys[a].key, a) < std::tie(keys[b].hash, keys[b].key, b);
  });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool repeats = i != 0 && keys[order[i]].key == keys[order[i - 1]].key;
    first[order[i]] = repeats ? first[order[i - 1]] : order[i];
  }
  return first;
}

}  // namespace

Status locate_sources(Ctx& ctx, std::span<const LookupKey> keys, SourceEntries* sources) {
  TRY(ctx.reserve(keys.size() * (3 * sizeof(std::uint32_t) + sizeof(LookupKey) + sizeof(std::optional<Found>))));
  sources->entry_of = first_places(keys);
  std::vector<LookupKey> distinct;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::uint32_t& entry = sources->entry_of[i];
    entry = entry == i ? static_cast<std::uint32_t>(distinct.size()) : sources->entry_of[entry];
    if (entry == distinct.size()) distinct.push_back(keys[i]);
  }
  TRY(locate_entries(ctx, distinct, &sources->found));
  if (ctx.command.spec->has(kWrite)) return Status::ok();
  std::vector<bool> counted(distinct.size());
  for (const std::uint32_t entry : sources->entry_of) {
    if (counted[entry]) ++(sources->found[entry] ? ctx.counts.hits : ctx.counts.misses);
    counted[entry] = true;
  }
  return Status::ok();
}

namespace {

template <typename Read>
Status read_source(Ctx& ctx, CollectionType type, std::optional<Found>* found, Read read) {
  if (!*found) return Status::ok();
  const Status status = read(ctx, type, &**found);
  if (!ctx.has_waited() || check_collection(**found, type).is_ok()) return status;
  found->reset();
  return Status::ok();
}

template <typename ReadSource>
Status find_first(Ctx& ctx, CollectionType type, std::vector<std::optional<Found>>* found, std::size_t* first, ReadSource read) {
  TRY(locate_entries(ctx, ctx.keys, found));
  for (*first = 0; *first < found->size(); ++*first) {
    TRY(read(ctx, type, &(*found)[*first]));
    if ((*found)[*first]) break;
  }
  return Status::ok();
}

Status read_all(Ctx& ctx, CollectionType type, Found* found) { return read_collection(ctx, type, found); }

}  // namespace

Status read_source(Ctx& ctx, CollectionType type, std::optional<Found>* found) { return read_source(ctx, type, found, read_all); }

Status locate_source(Ctx& ctx, CollectionType type, std::optional<Found>* found) {
  return read_source(ctx, type, found, read_small);
}

Status find_first(Ctx& ctx, CollectionType type, std::vector<std::optional<Found>>* found, std::size_t* first) {
  Status (*const read)(Ctx&, CollectionType, std::optional<Found>*) = read_source;
  return find_first(ctx, type, found, first, read);
}

Status locate_first(Ctx& ctx, CollectionType type, std::vector<std::optional<Found>>* found, std::size_t* first) {
  return find_first(ctx, type, found, first, locate_source);
}

Result<std::optional<std::uint64_t>> wait_argument(const Ctx& ctx, std::size_t place) {
  if (!ctx.command.spec->has(kBlocking)) return std::optional<std::uint64_t>();
  const auto seconds = parse_long_double(ctx.arg(place));
  if (!seconds) return reply_error("ERR timeout is not a float or out of range");
  constexpr auto kMost = static_cast<long double>(std::numeric_limits<std::int64_t>::max());
  const long double ms = std::ceil(*seconds * 1000);
  if (ms > kMost) return reply_error("ERR timeout is out of range");
  if (ms < 0) return reply_error("ERR timeout is negative");
  if (ms > kMost - static_cast<long double>(ctx.now)) return reply_error("ERR timeout is out of range");
  return std::optional(static_cast<std::uint64_t>(ms));
}

void wait_or_reply_null_array(Ctx& ctx, std::optional<std::uint64_t> timeout_ms) {
  if (!timeout_ms || !ctx.wait_for_element(*timeout_ms)) ctx.reply.null_array();
}

namespace {

/// Counts the work of encoding a whole collection, and reserves its memory.
Status prepare_collection(Ctx& ctx, std::size_t bytes) {
  TRY(ctx.work(bytes));
  return ctx.reserve(bytes);
}

/// Returns false for a hash that is large whatever its size, because fields expire.
bool may_be_small(const Hash& hash) { return !has_expiries(hash); }
template <typename Elements>
bool may_be_small(const Elements& /*elements*/) {
  return true;
}

/// `changes` writes the difference to a large collection; `grow` writes all elements of a collection that becomes large.
template <typename Elements, typename Encode, typename Changes, typename Grow>
Status put(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, const Elements& elements, Change change,
           Encode encoded, Changes changes, Grow grow) {
  if (is_large(old)) return changes();
  Collections collections = ctx.collections();
  if (elements.empty()) {
    if (old) collections.remove(key, *old);
    return Status::ok();
  }
  const std::size_t bytes = encoded_bytes(elements);
  // Entries that an earlier version wrote may exceed the limit. A removal keeps them as one entry, since the disk may be full.
  const bool must_grow = change == Change::kKeeps && !fits_compact(elements.size(), bytes);
  if (must_grow || !may_be_small(elements)) return grow();
  TRY(prepare_collection(ctx, bytes));
  collections.modify(key, old, encoded(), change, &ctx.charge);
  return Status::ok();
}

template <typename Elements, typename Encode>
Status replace(Ctx& ctx, const LookupKey& key, const Elements& elements, Encode encoded) {
  std::optional<Found> old;
  TRY(ctx.strings().locate_any_for_update(key, &old));
  if (elements.empty()) {
    if (old) ctx.collections().remove(key, *old);
  } else {
    const std::size_t bytes = encoded_bytes(elements);
    TRY(check_built_size(elements.size(), bytes));
    TRY(prepare_collection(ctx, bytes));
    TRY(replace_collection(ctx, ctx.view, key, old, encoded(), {}));
  }
  ctx.reply.integer(static_cast<std::int64_t>(elements.size()));
  return Status::ok();
}

}  // namespace

Status put_changed(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, const Hash& hash, Change change) {
  return put(
      ctx, key, old, hash, change, [&] { return encode(hash); }, [&] { return put_changes(ctx, key, *old, hash, change); },
      [&] { return grow_large(ctx, key, old, hash); });
}

Status put_changed(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, const SortedSet& members, Change change) {
  return put(
      ctx, key, old, members, change, [&] { return encode(members); },
      [&] { return put_changes(ctx, key, *old, members, change); }, [&] { return grow_large(ctx, key, old, members); });
}

Status put_changed(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, CollectionType type,
                   const std::vector<Bytes>& items, Change change) {
  return put(
      ctx, key, old, items, change, [&] { return encode(type, items); },
      [&] { return put_changes(ctx, key, *old, type, items, change); }, [&] { return grow_large(ctx, key, old, type, items); });
}

Status store_result(Ctx& ctx, const LookupKey& key, const SortedSet& members) {
  return replace(ctx, key, members, [&] { return encode(members); });
}

Status store_result(Ctx& ctx, const LookupKey& key, CollectionType type, const std::vector<Bytes>& items) {
  return replace(ctx, key, items, [&] { return encode(type, items); });
}

Result<std::uint64_t> positive_argument(Bytes text, const char* error) {
  const auto number = parse_integer(text);
  if (!number || *number < 1) return reply_error(error);
  return static_cast<std::uint64_t>(*number);
}

Result<ArgCursor> after_popped_keys(const Ctx& ctx) {
  const auto count_at = static_cast<std::size_t>(ctx.command.spec->keys.count_at);
  TRY_ASSIGN(keys, positive_argument(ctx.arg(count_at), "ERR numkeys should be greater than 0"));
  if (keys >= ctx.argc() - count_at - 1) return syntax_error();
  return ArgCursor(ctx.args, count_at + 1 + static_cast<std::size_t>(keys));
}

Result<std::uint64_t> pop_count_argument(Bytes text) {
  const auto number = parse_integer(text);
  if (!number || *number < 0) return reply_error("ERR value is out of range, must be positive");
  return static_cast<std::uint64_t>(*number);
}

Result<std::uint64_t> pop_count_option(ArgCursor& cursor) {
  Bytes value;
  if (cursor.done()) return std::uint64_t{1};
  if (!cursor.take_option("COUNT", &value)) return syntax_error();
  TRY_ASSIGN(count, positive_argument(value, "ERR count should be greater than 0"));
  if (!cursor.done()) return syntax_error();
  return count;
}

Result<std::uint64_t> element_count(Ctx& ctx, const Found& found, CollectionType type) {
  if (found.kind == EntryKind::kHeader) {
    TRY_ASSIGN(header, header_of(found));
    return live_count(ctx, found, header);
  }
  TRY_ASSIGN(reader, CompactReader::open(found.value, type));
  return std::uint64_t{reader.count()};
}

Status reply_count(Ctx& ctx, CollectionType type) {
  std::optional<Found> found;
  TRY(locate_collection(ctx, ctx.key(), type, &found));
  std::uint64_t count = 0;
  if (found) {
    TRY_ASSIGN(size, element_count(ctx, *found, type));
    count = size;
  }
  ctx.reply.integer(static_cast<std::int64_t>(count));
  return Status::ok();
}

Status begin_element_scan(Ctx& ctx, CollectionType type, std::optional<Found>* found, std::optional<Bytes>* match,
                          std::uint64_t* next_cursor) {
  TRY_ASSIGN(place, parse_scan_cursor(ctx.arg(2)));
  TRY(locate_collection(ctx, ctx.key(), type, found));
  if (!*found) {
    ctx.reply.array(2);
    ctx.reply.bulk("0");
    ctx.reply.array(0);
    return Status::ok();
  }
  std::uint64_t wanted = kScanCount;
  for (ArgCursor cursor(ctx.args, 3); !cursor.done();) {
    Bytes value;
    if (cursor.take_option("COUNT", &value)) {
      TRY_ASSIGN(count, integer_argument(value));
      if (count < 1) return syntax_error();
      wanted = static_cast<std::uint64_t>(count);
    } else if (cursor.take_option("MATCH", &value)) {
      *match = value;
    } else {
      return syntax_error();
    }
  }
  if (!is_large(*found)) return Status::ok();
  ScanCursors& cursors = *env_of(ctx).cursors;
  TRY_ASSIGN(resume, resume_scan(cursors, ctx.session.database, place));
  std::optional<std::string> rest;
  TRY(load_scan_part(ctx, type, resume, wanted, &**found, &rest));
  if (rest) *next_cursor = cursors.add(ctx.session.database, std::move(*rest));
  return Status::ok();
}

std::size_t random_below(std::size_t size, std::uint64_t* random) { return static_cast<std::size_t>(next_random(random) % size); }

namespace {

/// Like choose(), for a `count` far below `size` (R. Floyd's algorithm): each choice of `count` numbers is equally likely.
std::vector<std::size_t> choose_few(std::size_t size, std::size_t count, std::uint64_t* random) {
  std::unordered_set<std::size_t> chosen;
  for (std::size_t last = size - count; last < size; ++last) {
    if (const std::size_t place = random_below(last + 1, random); !chosen.insert(place).second) chosen.insert(last);
  }
  std::vector<std::size_t> places(chosen.begin(), chosen.end());
  std::sort(places.begin(), places.end());
  return places;
}

}  // namespace

std::vector<std::size_t> choose(std::size_t size, std::size_t count, std::uint64_t* random) {
  constexpr std::size_t kMany = 16;
  if (count < size / kMany) return choose_few(size, count, random);
  std::vector<std::size_t> places;
  places.reserve(count);
  // Takes each index with probability (elements still wanted) / (indexes left), so that each choice is equally likely.
  for (std::size_t place = 0; places.size() < count; ++place) {
    if (random_below(size - place, random) < count - places.size()) places.push_back(place);
  }
  return places;
}

Result<RandomChoice> choose_random(Ctx& ctx, const RandomCount& wanted, CollectionType type, Found* found) {
  // With repeats, each element of the reply is chosen independently among all, so all elements are read.
  const bool large = found->kind == EntryKind::kHeader;
  if (large && wanted.repeats) TRY(read_collection(ctx, type, found));
  TRY_ASSIGN(count, element_count(ctx, *found, type));
  RandomChoice choice{.size = static_cast<std::size_t>(count), .places = {}};
  if (wanted.repeats) return choice;
  std::uint64_t random = ctx.random;
  const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(wanted.count, count));
  if (large) TRY(ctx.reserve(taken * 2 * sizeof(std::size_t)));
  choice.places = choose(choice.size, taken, &random);
  if (!large) return choice;
  TRY(load_places(ctx, type, choice.places, found));
  choice.size = taken;
  std::iota(choice.places.begin(), choice.places.end(), std::size_t{0});
  return choice;
}

Result<RandomCount> parse_random_count(const Ctx& ctx, Bytes with_values) {
  using Int = std::numeric_limits<std::int64_t>;
  RandomCount wanted;
  if (ctx.argc() == 2) return wanted;
  if (with_values.empty() && ctx.argc() > 3) return syntax_error();
  TRY_ASSIGN(count, integer_argument_in(ctx.arg(2), -Int::max(), Int::max()));
  if (ctx.argc() > 4 || (ctx.argc() == 4 && !equal_ignoring_case(ctx.arg(3), with_values))) return syntax_error();
  wanted.given = true;
  wanted.with_values = ctx.argc() == 4;
  if (wanted.with_values && (count < -Int::max() / 2 || count > Int::max() / 2)) return reply_error("ERR value is out of range");
  wanted.repeats = count < 0;
  wanted.count = static_cast<std::uint64_t>(count < 0 ? -count : count);
  return wanted;
}

}  // namespace ebbtide
