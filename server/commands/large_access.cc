#include "commands/large_access.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "commands/expiring_fields.h"
#include "commands/large_part.h"
#include "commands/large_upkeep.h"
#include "dispatch/planted_bug.h"

namespace ebbtide {
namespace {

/// The most elements that a loop looks up for one command: about two milliseconds of work.
constexpr std::uint64_t kMostLookups = 2048;
/// The most elements that one HSCAN, SSCAN or ZSCAN reads; kMostScannedBytes: the bytes after which it also ends.
constexpr std::uint64_t kMostScanned = 10'000;
constexpr std::size_t kMostScannedBytes = 1 << 20;
/// If more members of a sorted set were popped than remain, ZSCAN returns all that remain in one call, up to this many.
constexpr std::uint64_t kMostScannedByScore = 1024;
/// Work (Ctx::work) for an element that is written.
constexpr std::uint64_t kWriteWork = 512;
/// Up to this many elements of a list are looked up one by one; more elements are read by a walk.
constexpr std::uint64_t kFewPositions = 4;

/// Decodes the header of a located large collection, which must be of that type.
Result<LargeHeader> open_header(const Found& found, CollectionType type) {
  TRY_ASSIGN(header, header_of(found));
  if (header.type != type) return wrong_type();
  return header;
}

Status miscounted() { return Status::corruption("the header of a collection counts another number of elements"); }

/// Prepares a walk over this many elements. If the walk is long, returns kNotResident, so that dispatch runs the command again:
/// off its event loop, or on a thread for long work.
Status prepare_walk(Ctx& ctx, std::uint64_t elements) {
  if (elements <= kMostWalked) return Status::ok();
  return ctx.off_loop == nullptr ? leave_loop(ctx) : ctx.go_on_for_long();
}

Status load_names(Ctx& ctx, std::vector<Bytes> names, const LargeHeader& header, Found* found) {
  if (ctx.off_loop == nullptr && names.size() > kMostLookups) return leave_loop(ctx);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  LargePart part(ctx, *found, header);
  for (const Bytes name : names) TRY(part.look_up(name));
  if (!part.is_resident()) return Status::not_resident();
  part.give(found);
  return header.type == CollectionType::kSortedSet ? LargePart::order_by_score(found) : Status::ok();
}

Status check_names(const LookupKey& key, std::size_t longest) {
  const std::size_t overhead = ElementKeys(key.key, 1).overhead();
  if (overhead + longest <= kMaxKeyBytes) return Status::ok();
  return Status::invalid_argument("ERR a name of " + std::to_string(longest) +
                                  " bytes is too long for a collection of more than " + std::to_string(kMaxCompactElements) +
                                  " elements or " + std::to_string(kMaxCompactBytes) + " bytes");
}

/// Writes the header with a new number of elements; for 0, deletes the collection.
Status put_count(Ctx& ctx, const LookupKey& key, const Found& old, LargeHeader header, std::uint64_t count, Change change) {
  if (count == 0) {
    ctx.collections().remove(key, old);
    return Status::ok();
  }
  header.count = count;
  if (planted(PlantedServerBug::kCountDrifts)) {
    TRY_ASSIGN(before, header_of(old));
    if (count == before.count + 1 || count + 1 == before.count) header.count = before.count;
  }
  ctx.collections().put_header(key, old, header, change);
  return Status::ok();
}

template <typename Elements>
Status put_difference(Ctx& ctx, const LookupKey& key, const Found& old, const Elements& before, const Elements& after,
                      std::size_t longest, Change change) {
  TRY(check_names(key, longest));
  TRY_ASSIGN(header, header_of(old));
  if (header.count + after.size() < before.size())
    return Status::corruption("the header of a collection counts too few elements");
  const std::uint64_t count = header.count + after.size() - before.size();
  TRY(ctx.work(kWriteWork * (before.size() + after.size())));
  if (count == 0) return put_count(ctx, key, old, header, count, change);
  header.count = count;
  if constexpr (std::is_same_v<Elements, SortedSet>) {
    TRY(note_change(ctx, old, before, after, &header));
  } else {
    note_change(before, after, &header);
  }
  if (is_mostly_dead(header) && may_rewrite(ctx, header)) {
    const Result<bool> written = rewrite(ctx, key, old, before, after, change, &header);
    // If there is no memory to rewrite all elements, only the changed ones are written.
    if (!written.is_ok() && written.status().code() != Code::kOutOfMemory) return written.status();
    if (written.is_ok() && *written) return Status::ok();
  }
  ElementWriter writer = ctx.collections().elements(key, header.generation);
  write_changes(writer, before, after);
  return put_count(ctx, key, old, header, count, change);
}

/// Like put_difference(), for a hash with fields that expire before or after the change.
Status put_expiring(Ctx& ctx, const LookupKey& key, const Found& old, LargeHeader header, const Hash& before, const Hash& after,
                    Change change) {
  TRY(check_names(key, longest_name(after)));
  TRY(ctx.work(kWriteWork * (before.size() + after.size())));
  TRY(note_changed_fields(ctx, old, before, after, &header));
  note_change(before, after, &header);
  if (header.count != 0) {
    ElementWriter writer = ctx.collections().elements(key, header.generation);
    write_changes(writer, before, after);
  }
  return put_count(ctx, key, old, header, header.count, change);
}

template <typename Element>
void add_all(ElementWriter& writer, const std::vector<Element>& elements) {
  for (const Element& element : elements) writer.add(element);
}

void add_list(ElementWriter& writer, const List& list) {
  std::uint64_t position = kFirstPosition;
  for (const Bytes element : list) {
    writer.put(ElementClass::kPosition, position_name(position), element);
    position += kPositionStep;
  }
}

LargeHeader new_header(CollectionType type, Generation generation, std::uint64_t count) {
  LargeHeader header{.type = type, .generation = generation, .count = count};
  if (type == CollectionType::kList) {
    header.first = kFirstPosition;
    header.last = kFirstPosition + (count - 1) * kPositionStep;
  }
  return header;
}

/// Sets the header's bounds, if it is a sorted set.
template <typename Elements>
void set_bounds_of(const Elements& elements, LargeHeader* header) {
  if constexpr (std::is_same_v<Elements, SortedSet>) set_bounds(elements, header);
}

/// For a collection that is written as a whole: checks its size, counts the work and reserves the memory of the batch.
Status prepare_build(Ctx& ctx, const LookupKey& key, std::size_t elements, std::size_t bytes, std::size_t longest) {
  TRY(check_names(key, longest));
  TRY(check_built_size(elements, bytes));
  TRY(ctx.work(bytes + kWriteWork * elements));
  return ctx.reserve(bytes + elements * (ElementKeys(key.key, 1).overhead() + sizeof(std::uint64_t)));
}

Status write_all(ElementWriter& writer, CollectionType type, Bytes value) {
  switch (type) {
    case CollectionType::kHash: {
      TRY_ASSIGN(hash, decode_hash(value));
      add_all(writer, hash);
      break;
    }
    case CollectionType::kSortedSet: {
      TRY_ASSIGN(members, decode_sorted_set(value));
      add_all(writer, members);
      break;
    }
    case CollectionType::kSet: {
      TRY_ASSIGN(set, decode_set(value));
      add_all(writer, set);
      break;
    }
    case CollectionType::kList: {
      TRY_ASSIGN(list, decode_list(value));
      add_list(writer, list);
      break;
    }
  }
  return Status::ok();
}

/// Returns the length of the longest name in the bytes of a collection.
Result<std::size_t> longest_name_in(CollectionType type, Bytes value) {
  switch (type) {
    case CollectionType::kHash: {
      TRY_ASSIGN(hash, decode_hash(value));
      return longest_name(hash);
    }
    case CollectionType::kSortedSet: {
      TRY_ASSIGN(members, decode_sorted_set(value));
      return longest_name(members);
    }
    case CollectionType::kSet: {
      TRY_ASSIGN(set, decode_set(value));
      return longest_name(set);
    }
    case CollectionType::kList:
      break;
  }
  return sizeof(std::uint64_t);
}

}  // namespace

Result<LargeHeader> header_of(const Found& found) {
  return LargeHeader::decode(found.header.empty() ? found.value : found.header);
}

Status load_elements(Ctx& ctx, CollectionType type, const Wanted& wanted, Found* found) {
  TRY_ASSIGN(header, open_header(*found, type));
  if (!wanted.all) {
    std::vector<Bytes> names;
    const std::size_t end = std::min(wanted.end, ctx.argc());
    for (std::size_t i = wanted.first; i < end; i += wanted.step) names.push_back(ctx.arg(i));
    return load_names(ctx, std::move(names), header, found);
  }
  TRY(prepare_walk(ctx, header.count));
  LargePart part(ctx, *found, header);
  TRY(part.walk({.which = ordered_class(type)}));
  const bool exact = !header.counts_expired(ctx.view.now());
  if (exact ? part.count() != header.count : part.count() > header.count) return miscounted();
  part.give(found);
  return Status::ok();
}

namespace {

/// Visits a range of `count` elements of a located large collection.
Status visit_range(Ctx& ctx, const Found& found, const LargeHeader& header, const ElementRange& range, std::uint64_t count,
                   const VisitElement& visit) {
  TRY(prepare_walk(ctx, count));
  std::uint64_t visited = 0;
  TRY(LargePart(ctx, found, header).visit(range, [&](Bytes name, Bytes value, Millis /*expiry*/) {
    TRY(ctx.work(name.size() + value.size()));
    if (++visited > count) return miscounted();
    return visit(name, value);
  }));
  return visited == count ? Status::ok() : miscounted();
}

/// Returns the range of elements [begin, end) of a list, which is not empty.
ElementRange positions_of(const LargeHeader& header, std::uint64_t begin, std::uint64_t end) {
  return {.which = ElementClass::kPosition,
          .first = position_name(header.first + begin * kPositionStep),
          .end = position_name(header.first + (end - 1) * kPositionStep + 1)};
}

}  // namespace

Status visit_elements(Ctx& ctx, const Found& found, const LargeHeader& header, const VisitElement& visit) {
  return visit_range(ctx, found, header, {.which = ordered_class(header.type)}, header.count, visit);
}

Status visit_list_range(Ctx& ctx, std::uint64_t begin, std::uint64_t end, const Found& found, const VisitElement& visit) {
  if (end - begin <= kFewPositions) {
    Found few = found;
    TRY(load_list_range(ctx, begin, end, &few));
    TRY_ASSIGN(list, decode_list(few.value));
    for (const Bytes element : list) TRY(visit({}, element));
    return Status::ok();
  }
  TRY_ASSIGN(header, open_header(found, CollectionType::kList));
  return visit_range(ctx, found, header, positions_of(header, begin, end), end - begin, visit);
}

Status load_scan_part(Ctx& ctx, CollectionType type, Bytes resume, std::uint64_t count, Found* found,
                      std::optional<std::string>* rest) {
  TRY_ASSIGN(header, open_header(*found, type));
  Bytes from;
  if (!resume.empty()) {
    const std::size_t overhead = ElementKeys(found->key, header.generation).overhead();
    if (main_key_of(resume) != found->key || resume.size() < overhead) return Status::invalid_argument("ERR invalid cursor");
    from = resume.substr(overhead);
  }
  // In the order by score, popped members lie outside of the bounds, so a walk does not meet them. In the order by name, they may
  // lie anywhere.
  if (type == CollectionType::kSortedSet && header.count <= kMostScannedByScore &&
      header.dead_below + header.dead_above > header.count) {
    LargePart whole(ctx, *found, header);
    TRY_ASSIGN(more, whole.walk_some({.which = ElementClass::kScore}, kMostScannedBytes));
    if (!more) {
      whole.give(found);
      return Status::ok();
    }
  }
  LargePart part(ctx, *found, header);
  TRY_ASSIGN(
      next,
      part.walk_some(
          {.which = named_class(type), .first = std::string(from), .limit = std::min(count, kMostScanned), .in_parts = true},
          kMostScannedBytes));
  *rest = std::move(next);
  part.give(found);
  return Status::ok();
}

Result<Bytes> encoding_of_large(Ctx& ctx, const Found& found) {
  TRY_ASSIGN(header, header_of(found));
  if (!may_be_packed(header.type, header.count)) return large_encoding(header.type);
  Found all = found;
  LargePart part(ctx, found, header);
  TRY_ASSIGN(rest, part.walk_some({.which = ordered_class(header.type)}, kMostScannedBytes));
  if (rest) return large_encoding(header.type);  // too many bytes for a packed encoding
  part.give(&all);
  return collection_encoding(all.value);
}

Status load_element(Ctx& ctx, CollectionType type, Bytes name, Found* found) {
  TRY_ASSIGN(header, open_header(*found, type));
  return load_names(ctx, {name}, header, found);
}

Status load_places(Ctx& ctx, CollectionType type, std::span<const std::size_t> places, Found* found) {
  TRY_ASSIGN(header, open_header(*found, type));
  TRY_ASSIGN(count, live_count(ctx, *found, header));
  header.count = count;
  LargePart part(ctx, *found, header);
  TRY(part.walk_to(places));
  part.give(found);
  return Status::ok();
}

Status load_list_range(Ctx& ctx, std::uint64_t begin, std::uint64_t end, Found* found) {
  TRY_ASSIGN(header, open_header(*found, CollectionType::kList));
  LargePart part(ctx, *found, header);
  if (end - begin <= kFewPositions) {
    for (std::uint64_t place = begin; place < end; ++place) TRY(part.look_up_position(place));
    if (!part.is_resident()) return Status::not_resident();
  } else {
    TRY(prepare_walk(ctx, end - begin));
    TRY(part.walk(positions_of(header, begin, end)));
    if (part.count() != end - begin) return Status::corruption("a list lacks an element that its header counts");
  }
  part.give(found);
  return Status::ok();
}

Status put_changes(Ctx& ctx, const LookupKey& key, const Found& old, const Hash& after, Change change) {
  TRY_ASSIGN(before, decode_hash(old.value));
  TRY_ASSIGN(header, header_of(old));
  if (header.expiries || has_expiries(after)) return put_expiring(ctx, key, old, header, before, after, change);
  return put_difference(ctx, key, old, before, after, longest_name(after), change);
}

Status put_changes(Ctx& ctx, const LookupKey& key, const Found& old, const SortedSet& after, Change change) {
  TRY_ASSIGN(before, decode_sorted_set(old.value));
  return put_difference(ctx, key, old, before, after, longest_name(after), change);
}

Status put_changes(Ctx& ctx, const LookupKey& key, const Found& old, CollectionType type, const std::vector<Bytes>& after,
                   Change change) {
  if (type == CollectionType::kSet) {
    TRY_ASSIGN(before, decode_set(old.value));
    return put_difference(ctx, key, old, before, after, longest_name(after), change);
  }
  if (after.empty()) {
    ctx.collections().remove(key, old);
    return Status::ok();
  }
  TRY_ASSIGN(header, header_of(old));
  TRY_ASSIGN(before, decode_list(old.value));
  const ListDifference difference = ListDifference::of(before, after);
  const std::size_t written = difference.written(after.size());
  TRY(ctx.work(kWriteWork * (written + 1)));
  TRY(ctx.reserve(encoded_bytes(after) + written * (ElementKeys(key.key, 1).overhead() + sizeof(std::uint64_t))));
  ElementWriter writer = ctx.collections().elements(key, header.generation);
  write_changes(writer, before, after, difference, &header);
  return put_count(ctx, key, old, header, after.size(), change);
}

namespace {

/// `write` must write all elements.
template <typename Elements, typename Write>
Status grow(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, CollectionType type, const Elements& elements,
            std::size_t longest, Write write, std::optional<FieldExpiries> expiries = {}) {
  TRY(prepare_build(ctx, key, elements.size(), encoded_bytes(elements), longest));
  Collections collections = ctx.collections();
  LargeHeader header = new_header(type, collections.next_generation(), elements.size());
  header.expiries = expiries;
  set_bounds_of(elements, &header);
  collections.put_header(key, old, header, Change::kKeeps);
  ElementWriter writer = collections.elements(key, header.generation);
  write(writer);
  return Status::ok();
}

}  // namespace

Status grow_large(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, const Hash& hash) {
  return grow(
      ctx, key, old, CollectionType::kHash, hash, longest_name(hash), [&](ElementWriter& to) { add_all(to, hash); },
      expiries_of(hash));
}

Status grow_large(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, const SortedSet& members) {
  return grow(ctx, key, old, CollectionType::kSortedSet, members, longest_name(members),
              [&](ElementWriter& to) { add_all(to, members); });
}

Status grow_large(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, CollectionType type,
                  const std::vector<Bytes>& items) {
  const bool list = type == CollectionType::kList;
  return grow(ctx, key, old, type, items, list ? sizeof(std::uint64_t) : longest_name(items),
              [&](ElementWriter& to) { list ? add_list(to, items) : add_all(to, items); });
}

Status replace_collection(Ctx& ctx, const ReadView& view, const LookupKey& key, const std::optional<Found>& old,
                          std::string value, const WriteBatch::PutOptions& options) {
  const auto type = collection_type_of(value);
  if (!type) return Status::corruption("collection: byte 0: unknown type");
  TRY_ASSIGN(reader, CompactReader::open(value, *type));
  Collections collections = ctx.collections_in(view);
  std::optional<FieldExpiries> expiries;
  if (reader.has_expiries()) {
    TRY_ASSIGN(hash, decode_hash(value));
    expiries = expiries_of(hash);
    if (!expiries) return replace_collection(ctx, view, key, old, encode(hash), options);
  }
  if (!expiries && fits_compact(reader.count(), value.size())) {
    collections.replace(key, old, std::move(value), &ctx.charge, options);
    return Status::ok();
  }
  TRY_ASSIGN(longest, longest_name_in(*type, value));
  TRY(prepare_build(ctx, key, reader.count(), value.size(), longest));
  LargeHeader header = new_header(*type, collections.next_generation(), reader.count());
  header.expiries = expiries;
  if (*type == CollectionType::kSortedSet) {
    TRY_ASSIGN(members, decode_sorted_set(value));
    set_bounds(members, &header);
  }
  collections.replace_header(key, old, header, options);
  ElementWriter writer = collections.elements(key, header.generation);
  return write_all(writer, *type, value);
}

Result<std::uint64_t> push_large(Ctx& ctx, const LookupKey& key, const Found& old, std::span<const Bytes> elements, ListEnd end) {
  TRY_ASSIGN(header, open_header(old, CollectionType::kList));
  TRY(ctx.work(kWriteWork * elements.size()));
  ElementWriter writer = ctx.collections().elements(key, header.generation);
  for (const Bytes element : elements) {
    std::uint64_t& position = end == ListEnd::kHead ? header.first : header.last;
    position += end == ListEnd::kHead ? ~kPositionStep + 1 : kPositionStep;
    writer.put(ElementClass::kPosition, position_name(position), element);
  }
  const std::uint64_t count = header.count + elements.size();
  TRY(put_count(ctx, key, old, header, count, Change::kKeeps));
  return count;
}

Status load_list_end(Ctx& ctx, ListEnd end, std::uint64_t count, Found* found) {
  TRY_ASSIGN(header, open_header(*found, CollectionType::kList));
  const std::uint64_t taken = std::min(count, header.count);
  return end == ListEnd::kHead ? load_list_range(ctx, 0, taken, found)
                               : load_list_range(ctx, header.count - taken, header.count, found);
}

Status trim_large(Ctx& ctx, const LookupKey& key, const Found& old, std::uint64_t from_head, std::uint64_t from_tail) {
  TRY_ASSIGN(header, open_header(old, CollectionType::kList));
  const std::uint64_t removed = from_head + from_tail;
  if (removed >= header.count) return put_count(ctx, key, old, header, 0, Change::kRemoves);
  ElementWriter writer = ctx.collections().elements(key, header.generation);
  writer.remove_positions(header.first, from_head);
  header.first += from_head * kPositionStep;
  header.last -= from_tail * kPositionStep;
  writer.remove_positions(header.last + kPositionStep, from_tail);
  return put_count(ctx, key, old, header, header.count - removed, removed == 0 ? Change::kKeeps : Change::kRemoves);
}

Status rotate_large(Ctx& ctx, const LookupKey& key, const Found& old, Bytes element, ListEnd from) {
  TRY_ASSIGN(header, open_header(old, CollectionType::kList));
  if (header.count == 1) return put_count(ctx, key, old, header, 1, Change::kKeeps);
  ElementWriter writer = ctx.collections().elements(key, header.generation);
  const std::uint64_t step = from == ListEnd::kHead ? kPositionStep : ~kPositionStep + 1;
  writer.remove(ElementClass::kPosition, position_name(from == ListEnd::kHead ? header.first : header.last));
  header.first += step;
  header.last += step;
  writer.put(ElementClass::kPosition, position_name(from == ListEnd::kHead ? header.last : header.first), element);
  return put_count(ctx, key, old, header, header.count, Change::kKeeps);
}

Status set_large(Ctx& ctx, const LookupKey& key, const Found& old, std::uint64_t place, Bytes value) {
  TRY_ASSIGN(header, open_header(old, CollectionType::kList));
  ElementWriter writer = ctx.collections().elements(key, header.generation);
  writer.put(ElementClass::kPosition, position_name(header.first + place * kPositionStep), value);
  return put_count(ctx, key, old, header, header.count, Change::kKeeps);
}

}  // namespace ebbtide
