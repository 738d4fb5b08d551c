#include "store/strings.h"

#include <memory>
#include <string>
#include <utility>

#include "store/numbers.h"

namespace ebbtide {

Status wrong_type() { return Status::invalid_argument("WRONGTYPE Operation against a key holding the wrong kind of value"); }

Status string_too_long() { return Status::invalid_argument("ERR string exceeds maximum allowed size (proto-max-bulk-len)"); }

Bytes type_name(EntryKind kind) { return kind == EntryKind::kValue ? "string" : "none"; }

Bytes string_encoding(Bytes value) {
  constexpr std::size_t kMaxIntegerBytes = 20, kMaxEmbeddedBytes = 44;
  if (value.size() <= kMaxIntegerBytes && parse_integer(value)) return "int";
  return value.size() <= kMaxEmbeddedBytes ? "embstr" : "raw";
}

Status Strings::find(const LookupKey& key, std::optional<Found>* found) const {
  found->emplace();
  Status status = pending_ == nullptr ? view_.get(key, &**found) : pending_->get(view_, key, &**found);
  if (status.is_ok()) [[likely]]
    return status;
  found->reset();
  return status.is_not_found() ? Status::ok() : status;
}

Status Strings::get_any(const LookupKey& key, std::optional<Found>* found) {
  TRY(find(key, found));
  ++(found->has_value() ? counts_.hits : counts_.misses);
  return Status::ok();
}

Status Strings::get(const LookupKey& key, std::optional<Found>* found) {
  TRY(get_any(key, found));
  if (found->has_value() && (*found)->kind != EntryKind::kValue) [[unlikely]]
    return wrong_type();
  return Status::ok();
}

Status Strings::get_any_for_update(const LookupKey& key, std::optional<Found>* found) {
  TRY(find(key, found));
  if (found->has_value()) batch_.rely_on_expiry((*found)->expiry);
  return Status::ok();
}

Status Strings::get_for_update(const LookupKey& key, std::optional<Found>* found) {
  TRY(get_any_for_update(key, found));
  if (found->has_value() && (*found)->kind != EntryKind::kValue) [[unlikely]]
    return wrong_type();
  return Status::ok();
}

StampMode Strings::stamp_mode() const { return pending_ == nullptr ? view_.stamp_mode() : pending_->stamp_mode(view_); }

void Strings::set(const LookupKey& key, Bytes value, Millis expiry, SharedValue shared, DeleteKey stamp) {
  WriteBatch::PutOptions options;
  options.stamp = stamp;
  options.expiry = expiry;
  if (shared != nullptr) {
    batch_.put_shared(view_.database(), key.key, std::move(shared), options);
  } else {
    batch_.put(view_.database(), key.key, value, options);
  }
}

void Strings::modify(const LookupKey& key, const std::optional<Found>& old, Bytes value) {
  WriteBatch::PutOptions options;
  if (old) {
    options.stamp = kept_stamp(*old);
    options.expiry = old->expiry;
  }
  batch_.put(view_.database(), key.key, value, options);
}

void Strings::put_copy(const LookupKey& key, const Found& source, StampMode source_mode) {
  WriteBatch::PutOptions options;
  if (source_mode == StampMode::kExplicit) options.stamp = kept_stamp(source);
  options.expiry = source.expiry;
  batch_.put(view_.database(), key.key, source.value, options);
}

void Strings::set_expiry(const LookupKey& key, const Found& old, Millis expiry) {
  WriteBatch::PutOptions options;
  options.stamp = kept_stamp(old);
  options.expiry = expiry;
  batch_.put(view_.database(), key.key, old.value, options);
}

void Strings::remove(const LookupKey& key) { batch_.del(view_.database(), key.key); }

}  // namespace ebbtide
