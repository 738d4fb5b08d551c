#include "store/collections.h"

#include <algorithm>
#include <utility>

#include "store/numbers.h"

namespace ebbtide {
namespace {

// Redis's defaults of hash-max-listpack-entries and so on. A list is one listpack up to list-max-listpack-size, 8 KiB.
constexpr std::size_t kPackedFields = 512, kPackedMembers = 128, kPackedIntegers = 512, kPackedItemBytes = 64;
constexpr std::size_t kPackedListBytes = 8192;

bool is_short(Bytes item) { return item.size() <= kPackedItemBytes; }

/// Returns how many bytes an element takes in Redis's listpack: its text, and 2 bytes more, or 4 for a long text.
std::size_t listpack_bytes(Bytes item) { return item.size() + (is_short(item) ? 2 : 4); }

Result<Bytes> hash_encoding(Bytes value) {
  TRY_ASSIGN(hash, decode_hash(value));
  const bool all_short =
      std::all_of(hash.begin(), hash.end(), [](const HashField& f) { return is_short(f.field) && is_short(f.value); });
  if (hash.size() > kPackedFields || !all_short) return Bytes("hashtable");
  return Bytes(has_expiries(hash) ? "listpackex" : "listpack");
}

Result<Bytes> set_encoding(Bytes value) {
  TRY_ASSIGN(set, decode_set(value));
  const bool integers =
      set.size() <= kPackedIntegers && std::all_of(set.begin(), set.end(), [](Bytes m) { return parse_integer(m).has_value(); });
  if (integers) return Bytes("intset");
  return Bytes(set.size() <= kPackedMembers && std::all_of(set.begin(), set.end(), is_short) ? "listpack" : "hashtable");
}

Result<Bytes> sorted_set_encoding(Bytes value) {
  TRY_ASSIGN(members, decode_sorted_set(value));
  const bool all_short = std::all_of(members.begin(), members.end(), [](const ScoredMember& m) { return is_short(m.member); });
  return Bytes(members.size() <= kPackedMembers && all_short ? "listpack" : "skiplist");
}

Result<Bytes> list_encoding(Bytes value) {
  TRY_ASSIGN(list, decode_list(value));
  std::size_t bytes = 0;
  for (const Bytes item : list) bytes += listpack_bytes(item);
  return Bytes(bytes <= kPackedListBytes ? "listpack" : "quicklist");
}

}  // namespace

Bytes large_encoding(CollectionType type) {
  switch (type) {
    case CollectionType::kSortedSet:
      return "skiplist";
    case CollectionType::kList:
      return "quicklist";
    case CollectionType::kHash:
    case CollectionType::kSet:
      break;
  }
  return "hashtable";
}

bool may_be_packed(CollectionType type, std::uint64_t elements) {
  switch (type) {
    case CollectionType::kHash:
      return elements <= kPackedFields;
    case CollectionType::kSet:
      return elements <= kPackedIntegers;
    case CollectionType::kSortedSet:
      return elements <= kPackedMembers;
    case CollectionType::kList:
      break;
  }
  return elements <= kPackedListBytes / listpack_bytes({});
}

Millis key_expiry(const Found& found) {
  if (found.kind != EntryKind::kHeader) [[likely]]
    return found.expiry;
  const auto header = LargeHeader::decode(found.header.empty() ? found.value : found.header);
  return header.is_ok() && header->expiries ? header->expiries->key_expiry : found.expiry;
}

Status check_collection(const Found& found, CollectionType type) {
  if (!is_collection(found.kind)) return wrong_type();
  // Damaged bytes pass here: CompactReader reports them.
  const auto actual = collection_type_of(found.value);
  return actual && *actual != type ? wrong_type() : Status::ok();
}

Result<Bytes> collection_encoding(Bytes value) {
  const auto type = collection_type_of(value);
  if (!type) return Status::corruption("collection: byte 0: unknown type");
  switch (*type) {
    case CollectionType::kHash:
      return hash_encoding(value);
    case CollectionType::kSet:
      return set_encoding(value);
    case CollectionType::kSortedSet:
      return sorted_set_encoding(value);
    case CollectionType::kList:
      return list_encoding(value);
  }
  return Bytes();
}

Status Collections::locate(const LookupKey& key, std::optional<Found>* found) {
  TRY(strings_.locate_any(key, found));
  return *found && !is_collection((*found)->kind) ? wrong_type() : Status::ok();
}

Status Collections::locate_for_update(const LookupKey& key, std::optional<Found>* found) {
  TRY(strings_.locate_any_for_update(key, found));
  return *found && !is_collection((*found)->kind) ? wrong_type() : Status::ok();
}

Status Collections::read(CollectionType type, Found* found) const {
  TRY(strings_.read(found));
  return check_collection(*found, type);
}

void Collections::modify(const LookupKey& key, const std::optional<Found>& old, std::string value, Change change,
                         MemoryCharge* charge) {
  WriteBatch::PutOptions options;
  options.debt = options.shrinks = change == Change::kRemoves;
  if (old && old->kind == EntryKind::kHeader) delete_elements(batch_, view_.database(), key.key);
  if (old) {
    if (strings_.stamp_mode() == StampMode::kExplicit) options.stamp = old->stamp;
    options.expiry = old->expiry;
  }
  put(key, std::move(value), options, charge);
}

void Collections::replace(const LookupKey& key, const std::optional<Found>& old, std::string value, MemoryCharge* charge,
                          const WriteBatch::PutOptions& options) {
  WriteBatch::PutOptions put_options = options;
  put_options.debt = old && old->kind != EntryKind::kValue;
  if (old && old->kind == EntryKind::kHeader) delete_elements(batch_, view_.database(), key.key);
  put(key, std::move(value), put_options, charge);
}

namespace {

/// Writes a header. `options` has the expiry of the key.
void write_header(WriteBatch& batch, DatabaseId database, Bytes key, LargeHeader header, WriteBatch::PutOptions options) {
  if (header.expiries) header.expiries->key_expiry = options.expiry;
  options.expiry = header.entry_expiry(options.expiry);
  options.kind = EntryKind::kHeader;
  batch.put(database, key, header.encode(), options);
}

}  // namespace

void Collections::put_header(const LookupKey& key, const std::optional<Found>& old, const LargeHeader& header, Change change) {
  WriteBatch::PutOptions options;
  options.shrinks = change == Change::kRemoves;
  // A put over a small collection drops its elements. Older headers of a sorted set name members, one of which may be removed
  // now.
  options.debt =
      old && (old->kind == EntryKind::kCompact || (change == Change::kRemoves && header.type == CollectionType::kSortedSet));
  if (old && old->kind == EntryKind::kHeader) {
    const auto generation = header_generation(old->header.empty() ? old->value : old->header);
    if (generation && *generation != header.generation) {
      const KeyRange elements = element_range(key.key, *generation);
      batch_.delete_range(view_.database(), elements.start, elements.end);
    }
  }
  if (old) {
    if (strings_.stamp_mode() == StampMode::kExplicit) options.stamp = old->stamp;
    options.expiry = key_expiry(*old);
  }
  write_header(batch_, view_.database(), key.key, header, options);
}

void Collections::replace_header(const LookupKey& key, const std::optional<Found>& old, const LargeHeader& header,
                                 const WriteBatch::PutOptions& options) {
  if (old && old->kind == EntryKind::kHeader) delete_elements(batch_, view_.database(), key.key);
  WriteBatch::PutOptions put = options;
  put.debt = old && old->kind != EntryKind::kValue;  // a header may name a member, which is deleted, too
  write_header(batch_, view_.database(), key.key, header, put);
}

Generation Collections::next_generation() const {
  return view_.seq() + 1 + (pending_ == nullptr ? 0 : pending_->operations()) + batch_.count();
}

Status Collections::read_element(const std::string& element_key, std::optional<Found>* found) {
  return strings_.get_any_for_update({element_key, hash_key(element_key)}, found);
}

void Collections::put(const LookupKey& key, std::string value, WriteBatch::PutOptions options, MemoryCharge* charge) {
  options.kind = EntryKind::kCompact;
  if (value.size() > kLargeValueBytes) {
    batch_.put_shared(view_.database(), key.key, charged_value(std::move(value), charge), options);
  } else {
    batch_.put(view_.database(), key.key, value, options);
  }
}

}  // namespace ebbtide
