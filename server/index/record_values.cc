#include "index/record_values.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <engine/collection_keys.h>
#include <engine/spatial.h>

#include "store/collection/large.h"
#include "store/hashes.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

/// The value that an index takes from a record.
struct IndexedValue {
  std::optional<std::string> value;  ///< the argument of index_entry_key(); for a place: the entry's key without the record's key
  Millis expiry = 0;                 ///< earliest expiry of the fields that it comes from; 0: none expires
  SkipReason why{};                  ///< if `value` is not set: the reason
};

Result<IndexedValue> field_value(const IndexDefinition& definition, IndexedRecord& record) {
  IndexedValue out;
  TRY_ASSIGN(field, record.field(definition.source, &out.why));
  if (!field) return out;
  out.expiry = field->expiry;
  if (definition.kind == IndexKind::kText) {
    out.value = std::move(field->value);
    return out;
  }
  const auto number = parse_double(field->value);
  out.why = SkipReason::kNotNumber;
  if (number && !std::isnan(*number)) out.value = ordered_number(*number);
  return out;
}

Result<IndexedValue> place_value(const IndexDefinition& definition, IndexedRecord& record) {
  IndexedValue out;
  const PlaceFields fields = place_fields(definition.source);
  double degrees[2] = {};
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    TRY_ASSIGN(field, record.field(i == 0 ? fields.lon : fields.lat, &out.why));
    if (!field) return out;
    if (field->expiry != 0 && (out.expiry == 0 || field->expiry < out.expiry)) out.expiry = field->expiry;
    const auto number = parse_double(field->value);
    out.why = SkipReason::kNotNumber;
    if (!number) return out;
    degrees[i] = *number;
  }
  const auto place = make_place(degrees[0], degrees[1]);
  out.why = SkipReason::kNotPlace;
  if (place) out.value = place_key(*place_order(definition.kind), *place, "");
  return out;
}

/// Returns the key of a record's entry; nullopt if it is too long.
std::optional<std::string> entry_key_of(const IndexDefinition& definition, std::string value, Bytes record) {
  if (!place_order(definition.kind)) return index_entry_key(value, record);
  value += record;
  return value.size() > kMaxKeyBytes ? std::nullopt : std::optional(std::move(value));
}

Result<IndexedValue> value_of(const IndexDefinition& definition, IndexedRecord& record) {
  switch (definition.kind) {
    case IndexKind::kText:
    case IndexKind::kNumber:
      return field_value(definition, record);
    case IndexKind::kHilbertPlace:
    case IndexKind::kZOrderPlace:
    case IndexKind::kSimplePlace:
      return place_value(definition, record);
  }
  return Status::corruption("an index of an unknown kind");
}

constexpr std::size_t kLengthBytes = 2;

}  // namespace

// The form is: length of the first name in two bytes, big endian, then both names. A name has at most kMostIndexedBytes.
std::string place_source(Bytes lon, Bytes lat) {
  std::string out{static_cast<char>(lon.size() >> 8), static_cast<char>(lon.size() & 0xff)};
  out += lon;
  out += lat;
  return out;
}

PlaceFields place_fields(Bytes source) {
  if (source.size() < kLengthBytes) return {};
  const std::size_t length = std::size_t{static_cast<unsigned char>(source[0])} << 8 | static_cast<unsigned char>(source[1]);
  const Bytes names = source.substr(kLengthBytes);
  return {names.substr(0, length), names.substr(std::min(length, names.size()))};
}

Status IndexedRecord::find() {
  TRY(strings_.locate_any(lookup_, &found_));
  if (!found_ || !is_collection(found_->kind)) return Status::ok();
  TRY(strings_.read(&*found_));
  is_hash_ = collection_type_of(found_->value) == CollectionType::kHash;
  return Status::ok();
}

Result<std::optional<IndexedRecord::Field>> IndexedRecord::field(Bytes name, SkipReason* why) {
  std::optional<Field> none;
  *why = SkipReason::kNoField;
  if (found_->kind == EntryKind::kCompact) {
    TRY_ASSIGN(value, find_field(found_->value, name));
    if (!value) return none;
    *why = SkipReason::kTooLong;
    return value->size() > kMostIndexedBytes ? none : std::optional(Field{std::string(*value), 0});
  }
  TRY_ASSIGN(header, LargeHeader::decode(found_->value));
  ElementKeys keys(key_, header.generation);
  const std::string& element_key = keys.of(ElementClass::kField, name);
  std::optional<Found> element;
  TRY(strings_.locate_any({element_key, hash_key(element_key)}, &element));
  if (!element) return none;
  *why = SkipReason::kTooLong;
  if (element->length > kMostIndexedBytes) return none;
  TRY(strings_.read(&*element));
  return std::optional(Field{std::string(element->value), element->expiry});
}

Result<RecordEntry> entry_of_record(const IndexDefinition& definition, IndexedRecord& record) {
  RecordEntry out;
  if (!record.exists()) return out;
  out.skipped = SkipReason::kOtherType;
  if (!record.is_hash()) return out;
  TRY_ASSIGN(value, value_of(definition, record));
  out.skipped = value.why;
  if (!value.value) return out;
  auto key = entry_key_of(definition, std::move(*value.value), record.key());
  out.skipped = SkipReason::kTooLong;
  if (!key) return out;
  out.skipped.reset();
  out.entry = IndexEntry{.key = std::move(*key), .expiry = record.expiry(), .stamp = record.stamp()};
  if (value.expiry != 0 && (out.entry->expiry == 0 || value.expiry < out.entry->expiry)) out.entry->expiry = value.expiry;
  return out;
}

}  // namespace ebbtide
