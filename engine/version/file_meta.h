// A table as the manifest describes it.
#pragma once

#include <memory>

#include "base/table_stats.h"
#include "deletes/record.h"
#include "tree/shape.h"

namespace ebbtide {

/// Immutable once a Version has the table. The two checksums detect swapped and stale files.
struct FileMeta {
  FileNum data_file = kNoFile;  ///< identifies the table
  FileNum metadata_file = kNoFile;
  std::uint64_t data_bytes = 0, metadata_bytes = 0;
  std::uint64_t data_checksum = 0, metadata_checksum = 0;
  TableStats stats;
  std::uint64_t dead_bytes = 0;     ///< bytes of the data file in pages that were dropped or replaced
  std::uint64_t punched_bytes = 0;  ///< dead bytes that were durably returned to the file system
  Millis lingering_birth = 0;       ///< oldest birth of deletes whose keys may still be in fences or bounds; 0 = none
  Millis dead_birth = 0;            ///< oldest birth of the deletes whose dead bytes are not punched yet; 0 = all are punched

  /// The damage that was found in the files; "" = none. A damaged table is quarantined: no plan reads or replaces it, and it may
  /// hold any entry of its range. encode() leaves this field out; TreeEdit::quarantined has it.
  std::string damage;

  [[nodiscard]] bool quarantined() const { return !damage.empty(); }
  /// Bytes of both files without dead bytes.
  [[nodiscard]] std::uint64_t live_bytes() const { return data_bytes - dead_bytes + metadata_bytes; }
  /// The oldest birth of the table's pending deletes, lingering names included; 0 = none.
  [[nodiscard]] Millis oldest_obligation() const;

  /// Returns true if one of the table's bounds begins with `prefix`.
  [[nodiscard]] bool has_in_bounds(Bytes prefix) const {
    return stats.smallest.starts_with(prefix) || stats.largest.starts_with(prefix);
  }

  void encode(std::string* out) const;
  /// Decodes all of `in`; returns kCorruption if it is malformed.
  static Result<FileMeta> decode(Bytes* in);
  /// Returns the file as policies see it. `delete_deadline`: in ms, 0 = none. Its oldest_birth includes births of records that
  /// may cover entries. It leaves out births of lingering names and dead bytes, since these are purged without a merge
  /// (planner::names).
  [[nodiscard]] FileShape shape(Millis delete_deadline, Millis now, const RecordSet& records = *no_records()) const;
  bool operator==(const FileMeta&) const = default;
};

/// Returns the oldest birth of the records that may cover entries of a table; 0 = no record may cover one.
Millis records_birth(const TableStats& stats, const RecordSet& records);

using FileMetaPtr = std::shared_ptr<const FileMeta>;

}  // namespace ebbtide
