// Converts the description of a table: from the builder's form (BuiltTable) to the manifest's (FileMeta), and from that to the
// reader's (TableFiles).
#pragma once

#include "table/table_builder.h"
#include "table/table_reader.h"
#include "version/file_meta.h"

namespace ebbtide {

inline FileMeta meta_of(const BuiltTable& built) {
  FileMeta meta;
  meta.data_file = built.data_file;
  meta.metadata_file = built.metadata_file;
  meta.data_bytes = built.data_bytes;
  meta.metadata_bytes = built.metadata_bytes;
  meta.data_checksum = built.data_checksum;
  meta.metadata_checksum = built.metadata_checksum;
  meta.stats = built.stats;
  meta.dead_bytes = built.dead_bytes;
  return meta;
}

inline TableFiles files_of(const FileMeta& meta) {
  return {meta.data_file, meta.metadata_file, meta.data_bytes, meta.metadata_bytes, meta.data_checksum, meta.metadata_checksum};
}

}  // namespace ebbtide
