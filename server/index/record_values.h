// The value that each kind of index takes from a record, and the key of the record's entry.
//
// A new kind of index needs new cases in record_values.cc only. Maintenance, builds and deletes do not depend on the kind.
#pragma once

#include <optional>
#include <string>

#include <engine/index.h>
#include <engine/read_view.h>

#include "store/pending_writes.h"
#include "store/strings.h"

namespace ebbtide {

/// A record as indexes read it. Valid as long as its view and, if it has pending writes, until the batch changes.
class IndexedRecord {
 public:
  struct Field {
    std::string value;
    Millis expiry = 0;  ///< expiry of the field itself; 0: none
  };

  /// `key`: an engine key. `pending`: writes above the view; may be null.
  IndexedRecord(const ReadView& view, const PendingWrites* pending, Bytes key)
      : strings_(view, unused_, counts_, pending), key_(key), lookup_{key_, hash_key(key_)} {}
  IndexedRecord(const IndexedRecord&) = delete;
  IndexedRecord& operator=(const IndexedRecord&) = delete;

  /// Looks the record up. Must be called before all other methods. Fails like ReadView::get().
  Status find();
  /// Returns true if the key exists, whatever its type.
  [[nodiscard]] bool exists() const { return found_.has_value(); }
  [[nodiscard]] bool is_hash() const { return is_hash_; }
  [[nodiscard]] const std::string& key() const { return key_; }
  [[nodiscard]] Millis expiry() const { return found_->expiry; }
  [[nodiscard]] DeleteKey stamp() const { return found_->stamp; }
  /// Returns a field of the hash. nullopt: the field is missing, or is longer than kMostIndexedBytes; then `*why` is the reason.
  Result<std::optional<Field>> field(Bytes name, SkipReason* why);

 private:
  WriteBatch unused_;
  ReadCounts counts_;
  Strings strings_;
  const std::string key_;
  const LookupKey lookup_;
  std::optional<Found> found_;
  bool is_hash_ = false;
};

/// The fields of an index of places.
struct PlaceFields {
  Bytes lon, lat;
};
/// Returns both names as one text, the form of IndexDefinition::source.
std::string place_source(Bytes lon, Bytes lat);
/// The inverse of place_source(). The fields point into `source`.
PlaceFields place_fields(Bytes source);

/// A record's entry in an index, or the reason why it has none.
struct RecordEntry {
  std::optional<IndexEntry> entry;
  std::optional<SkipReason> skipped;  ///< set if the record exists but has no entry
};

/// Returns the entry of a record. Requires that record.find() has succeeded. Errors are those of ReadView::get().
Result<RecordEntry> entry_of_record(const IndexDefinition& definition, IndexedRecord& record);

}  // namespace ebbtide
