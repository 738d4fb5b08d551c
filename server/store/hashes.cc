#include "store/hashes.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ebbtide {

Result<std::optional<Bytes>> find_field(Bytes hash, Bytes field) {
  TRY_ASSIGN(reader, CompactReader::open(hash, CollectionType::kHash));
  for (HashField each; reader.next(&each);) {
    if (each.field == field) return std::optional(each.value);
  }
  TRY(reader.status());
  return std::optional<Bytes>();
}

Hash without_expired(const Hash& hash, Millis now) {
  Hash left;
  left.reserve(hash.size());
  std::copy_if(hash.begin(), hash.end(), std::back_inserter(left),
               [now](const HashField& field) { return field.expiry == 0 || field.expiry > now; });
  return left;
}

HashEditor::HashEditor(Hash hash, std::size_t changes) : fields_(std::move(hash)), indexed_(changes > kFewChanges) {
  if (!indexed_) return;
  index_.reserve(fields_.size() + changes);
  for (std::size_t i = 0; i < fields_.size(); ++i) index_.emplace(fields_[i].field, i);
}

std::size_t HashEditor::place_of(Bytes field) const {
  if (indexed_) {
    const auto found = index_.find(field);
    return found == index_.end() ? kNowhere : found->second;
  }
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].field == field && (gone_.empty() || !gone_[i])) return i;
  }
  return kNowhere;
}

const HashField* HashEditor::look_up(Bytes field) const {
  const std::size_t place = place_of(field);
  return place == kNowhere ? nullptr : &fields_[place];
}

std::optional<Bytes> HashEditor::find(Bytes field) const {
  const HashField* found = look_up(field);
  return found == nullptr ? std::nullopt : std::optional(found->value);
}

bool HashEditor::set(Bytes field, Bytes value, Millis expiry) {
  const std::size_t place = place_of(field);
  if (place != kNowhere) {
    fields_[place].value = value;
    fields_[place].expiry = expiry;
    return false;
  }
  if (indexed_) index_.emplace(field, fields_.size());
  fields_.push_back({field, value, expiry});
  if (!gone_.empty()) gone_.push_back(false);
  return true;
}

bool HashEditor::remove(Bytes field) {
  const std::size_t place = place_of(field);
  if (place == kNowhere) return false;
  if (indexed_) index_.erase(field);
  if (gone_.empty()) gone_.resize(fields_.size());
  gone_[place] = true;
  ++removed_;
  return true;
}

Hash HashEditor::take() {
  if (removed_ == 0) return std::move(fields_);
  Hash left;
  left.reserve(size());
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (!gone_[i]) left.push_back(fields_[i]);
  }
  return left;
}

}  // namespace ebbtide
