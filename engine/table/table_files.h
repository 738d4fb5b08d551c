// The two files of a table: data and metadata.
#pragma once

#include <cstdint>

#include <engine/types.h>

namespace ebbtide {

/// The numbers, sizes and checksums of the two files in the manifest. TableReader::open() returns an error if a file differs.
struct TableFiles {
  FileNum data_file = kNoFile, metadata_file = kNoFile;
  std::uint64_t data_bytes = 0, metadata_bytes = 0;
  std::uint64_t data_checksum = 0, metadata_checksum = 0;
};

}  // namespace ebbtide
