#include "store/strings.h"

#include <memory>
#include <string>
#include <utility>

#include <engine/collection_keys.h>

#include "store/collection/compact.h"
#include "store/collection/large.h"
#include "store/numbers.h"

namespace ebbtide {

Status wrong_type() { return Status::invalid_argument("WRONGTYPE Operation against a key holding the wrong kind of value"); }

Status string_too_long() { return Status::invalid_argument("ERR string exceeds maximum allowed size (proto-max-bulk-len)"); }

void delete_elements(WriteBatch& batch, DatabaseId database, Bytes key, Millis birth) {
  const KeyRange elements = element_range(key);
  batch.delete_range(database, elements.start, elements.end, birth);
}

Bytes type_name(EntryKind kind, Bytes value) {
  if (kind == EntryKind::kValue) return "string";
  const auto type = is_collection(kind) ? collection_type_of(value) : std::nullopt;
  return type ? collection_name(*type) : "none";
}

Bytes string_encoding(const Found& found) {
  constexpr std::size_t kMaxIntegerBytes = 20, kMaxEmbeddedBytes = 44;
  if (found.length <= kMaxIntegerBytes && parse_integer(found.value)) return "int";
  return found.length <= kMaxEmbeddedBytes ? "embstr" : "raw";
}

Status Strings::find(const LookupKey& key, Want want, std::optional<Found>* found, bool for_update) {
  Found& entry = found->emplace();
  Status status = pending_ == nullptr ? view_.locate(key, &entry) : pending_->locate(view_, key, &entry);
  if (status.is_ok() && entry.large.table != nullptr && want == Want::kValue) [[unlikely]]
    status = view_.read(&entry);
  if (status.is_ok()) [[likely]] {
    if (entry.kind == EntryKind::kHeader) entry.key = key.key;
    return status;
  }
  if (status.is_not_found() && entry.died != 0 && for_update) bury(key, entry);
  found->reset();
  return status.is_not_found() ? Status::ok() : status;
}

void Strings::bury(const LookupKey& key, const Found& absent) { delete_elements(batch_, view_.database(), key.key, absent.died); }

Status Strings::find_to_read(const LookupKey& key, Want want, std::optional<Found>* found) {
  TRY(find(key, want, found));
  ++(found->has_value() ? counts_.hits : counts_.misses);
  return Status::ok();
}

Status Strings::find_for_update(const LookupKey& key, Want want, std::optional<Found>* found) {
  TRY(find(key, want, found, true));
  if (found->has_value()) batch_.rely_on_expiry((*found)->expiry);
  return Status::ok();
}

namespace {

Status check_string(const std::optional<Found>& found) {
  if (found.has_value() && found->kind != EntryKind::kValue) [[unlikely]]
    return wrong_type();
  return Status::ok();
}

}  // namespace

Status Strings::get_any(const LookupKey& key, std::optional<Found>* found) { return find_to_read(key, Want::kValue, found); }
Status Strings::locate_any(const LookupKey& key, std::optional<Found>* found) { return find_to_read(key, Want::kPlace, found); }

Status Strings::get(const LookupKey& key, std::optional<Found>* found) {
  TRY(get_any(key, found));
  return check_string(*found);
}

Status Strings::locate(const LookupKey& key, std::optional<Found>* found) {
  TRY(locate_any(key, found));
  return check_string(*found);
}

Status Strings::get_any_for_update(const LookupKey& key, std::optional<Found>* found) {
  return find_for_update(key, Want::kValue, found);
}

Status Strings::locate_any_for_update(const LookupKey& key, std::optional<Found>* found) {
  return find_for_update(key, Want::kPlace, found);
}

Status Strings::get_for_update(const LookupKey& key, std::optional<Found>* found) {
  TRY(get_any_for_update(key, found));
  return check_string(*found);
}

Status Strings::locate_for_update(const LookupKey& key, std::optional<Found>* found) {
  TRY(locate_any_for_update(key, found));
  return check_string(*found);
}

StampMode Strings::stamp_mode() const { return pending_ == nullptr ? view_.stamp_mode() : pending_->stamp_mode(view_); }

Status Strings::type_of(const Found& found, Bytes* name) const {
  ValuePart first{found.value, nullptr};
  if (is_collection(found.kind) && found.value.empty()) TRY(view_.read_part(found, 0, 1, &first));
  *name = type_name(found.kind, first.bytes);
  return Status::ok();
}

Status Strings::replaces_collection(const LookupKey& key, bool* collection) {
  *collection = false;
  const bool possible = pending_ == nullptr ? view_.may_have_collection(key) : pending_->may_have_collection(view_, key);
  if (!possible) [[likely]]
    return Status::ok();
  std::optional<Found> old;
  TRY(find(key, Want::kPlace, &old, true));
  *collection = old && old->kind != EntryKind::kValue;
  if (old && old->kind == EntryKind::kHeader) delete_elements(batch_, view_.database(), key.key);
  return Status::ok();
}

Status Strings::set(const LookupKey& key, Bytes value, Millis expiry, SharedValue shared, DeleteKey stamp) {
  WriteBatch::PutOptions options;
  TRY(replaces_collection(key, &options.debt));
  options.stamp = stamp;
  options.expiry = expiry;
  if (shared != nullptr) {
    batch_.put_shared(view_.database(), key.key, std::move(shared), options);
  } else {
    batch_.put(view_.database(), key.key, value, options);
  }
  return Status::ok();
}

void Strings::modify(const LookupKey& key, const std::optional<Found>& old, std::string value, MemoryCharge* charge) {
  WriteBatch::PutOptions options;
  if (old) {
    options.stamp = kept_stamp(*old);
    options.expiry = old->expiry;
  }
  if (value.size() > kLargeValueBytes) {
    batch_.put_shared(view_.database(), key.key, charged_value(std::move(value), charge), options);
  } else {
    batch_.put(view_.database(), key.key, value, options);
  }
}

// A value that has a buffer of its own is shared with the batch instead of copied.
void Strings::put(const LookupKey& key, const Found& value, const WriteBatch::PutOptions& options) {
  if (SharedValue shared = value.shared(); shared != nullptr) {
    batch_.put_shared(view_.database(), key.key, std::move(shared), options);
  } else {
    batch_.put(view_.database(), key.key, value.value, options);
  }
}

Status Strings::put_copy(const LookupKey& key, const Found& source, StampMode source_mode) {
  WriteBatch::PutOptions options;
  if (source_mode == StampMode::kExplicit) options.stamp = kept_stamp(source);
  options.expiry = source.expiry;
  options.kind = source.kind;
  TRY(replaces_collection(key, &options.debt));
  put(key, source, options);
  return Status::ok();
}

void Strings::set_expiry(const LookupKey& key, const Found& old, Millis expiry) {
  WriteBatch::PutOptions options;
  options.stamp = kept_stamp(old);
  options.expiry = expiry;
  options.kind = old.kind;
  if (old.kind == EntryKind::kHeader) {
    auto header = LargeHeader::decode(old.value);
    if (header.is_ok() && header->expiries) {
      header->expiries->key_expiry = expiry;
      options.expiry = header->entry_expiry(expiry);
      return batch_.put(view_.database(), key.key, header->encode(), options);
    }
  }
  put(key, old, options);
}

void Strings::remove(const LookupKey& key, const Found& old) {
  if (old.kind != EntryKind::kHeader) return batch_.del(view_.database(), key.key);
  batch_.delete_range(view_.database(), key.key, element_range(key.key).end);
}

}  // namespace ebbtide
