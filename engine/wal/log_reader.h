// Reads segments back.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/file_system.h"

namespace ebbtide {

/// How a segment ended.
struct LogEnd {
  bool clean = true;              ///< at a record boundary, end of file
  std::uint64_t valid_bytes = 0;  ///< up to here it is whole
  std::string what;               ///< if not clean: what was met there ("record at 8192: checksum mismatch")
  bool valid_after = false;       ///< a whole record was found after the damage: not a torn tail
};

/// Calls `on_record` with each whole record (the payload is moved in), in order, and tells how the segment ended. A Status from
/// `on_record` ends the walk and is returned. kCorruption: the segment's header is bad and the file is longer than one.
Result<LogEnd> read_log(FileSystem& fs, const std::string& dir, FileNum file,
                        const std::function<Status(std::string payload, std::uint64_t offset)>& on_record);

}  // namespace ebbtide
