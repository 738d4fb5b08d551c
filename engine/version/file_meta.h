// A table as the manifest knows it.
#pragma once

#include <memory>

#include "base/table_stats.h"
#include "deletes/record.h"
#include "tree/shape.h"

namespace ebbtide {

/// Immutable once in a Version. The two checksums catch swapped and stale files.
struct FileMeta {
  FileNum data_file = kNoFile;  ///< also the table's identity
  FileNum metadata_file = kNoFile;
  std::uint64_t data_bytes = 0, metadata_bytes = 0;
  std::uint64_t data_checksum = 0, metadata_checksum = 0;
  TableStats stats;

  void encode(std::string* out) const;
  static Result<FileMeta> decode(Bytes* in);
  /// What policies see. `delete_deadline` 0 = none. Births of records that may cover entries count as those of tombstones.
  [[nodiscard]] FileShape shape(Millis delete_deadline, Millis now, const RecordSet& records = *no_records()) const;
  bool operator==(const FileMeta&) const = default;
};

/// The oldest birth of the records that may cover entries of a table; 0 = none does.
Millis records_birth(const TableStats& stats, const RecordSet& records);

using FileMetaPtr = std::shared_ptr<const FileMeta>;

}  // namespace ebbtide
