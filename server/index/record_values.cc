#include "index/record_values.h"

#include <cmath>
#include <utility>

#include <engine/collection_keys.h>

#include "store/collection/large.h"
#include "store/hashes.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

/// A value that an index of its kind takes from a record.
struct IndexedValue {
  std::optional<std::string> value;  ///< as index_entry_key() takes it
  Millis expiry = 0;                 ///< the earliest of the fields that it comes from; 0: none expires
  SkipReason why{};                  ///< of no value
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

Result<IndexedValue> value_of(const IndexDefinition& definition, IndexedRecord& record) {
  switch (definition.kind) {
    case IndexKind::kText:
    case IndexKind::kNumber:
      return field_value(definition, record);
  }
  return Status::corruption("an index of an unknown kind");
}

}  // namespace

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
  auto key = index_entry_key(*value.value, record.key());
  out.skipped = SkipReason::kTooLong;
  if (!key) return out;
  out.skipped.reset();
  out.entry = IndexEntry{.key = std::move(*key), .expiry = record.expiry(), .stamp = record.stamp()};
  if (value.expiry != 0 && (out.entry->expiry == 0 || value.expiry < out.entry->expiry)) out.entry->expiry = value.expiry;
  return out;
}

}  // namespace ebbtide
