// What indexes see of a record: the value that an index of each kind takes from it, and the key of its entry.
//
// Another kind of index is another case in the functions at the end. Maintenance, builds and deletes do not depend on the kind.
#pragma once

#include <optional>
#include <string>

#include <engine/index.h>
#include <engine/read_view.h>

#include "store/pending_writes.h"
#include "store/strings.h"

namespace ebbtide {

/// A record as indexes read it. Used while its view is valid, and, with pending writes, until the batch changes.
class IndexedRecord {
 public:
  struct Field {
    std::string value;
    Millis expiry = 0;  ///< the field's own; 0: none
  };

  /// `key`: an engine key. `pending`: writes above the view; may be null.
  IndexedRecord(const ReadView& view, const PendingWrites* pending, Bytes key)
      : strings_(view, unused_, counts_, pending), key_(key), lookup_{key_, hash_key(key_)} {}
  IndexedRecord(const IndexedRecord&) = delete;
  IndexedRecord& operator=(const IndexedRecord&) = delete;

  /// Looks the record up. Called first. Fails like ReadView::get().
  Status find();
  /// True if there is a key, of any type.
  [[nodiscard]] bool exists() const { return found_.has_value(); }
  [[nodiscard]] bool is_hash() const { return is_hash_; }
  [[nodiscard]] const std::string& key() const { return key_; }
  [[nodiscard]] Millis expiry() const { return found_->expiry; }
  [[nodiscard]] DeleteKey stamp() const { return found_->stamp; }
  /// Returns a field of the hash. None: there is no such field, or it is longer than kMostIndexedBytes; `why` says which.
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
/// Returns them as IndexDefinition::source.
std::string place_source(Bytes lon, Bytes lat);
/// The inverse of place_source(). The fields point into `source`.
PlaceFields place_fields(Bytes source);

/// A record's entry in an index; or none, and why.
struct RecordEntry {
  std::optional<IndexEntry> entry;
  std::optional<SkipReason> skipped;  ///< set if there is a record without an entry
};

/// Returns the entry of a record that was found. Errors are those of ReadView::get().
Result<RecordEntry> entry_of_record(const IndexDefinition& definition, IndexedRecord& record);

}  // namespace ebbtide
