// A table as the manifest knows it.
#pragma once

#include <memory>

#include "base/table_stats.h"
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
  /// What policies see. `delete_deadline` 0 = none.
  [[nodiscard]] FileShape shape(Millis delete_deadline, Millis now) const;
  bool operator==(const FileMeta&) const = default;
};

using FileMetaPtr = std::shared_ptr<const FileMeta>;

}  // namespace ebbtide
