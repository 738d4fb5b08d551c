// Reads segments back.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/file_system.h"

namespace ebbtide {

/// How a segment ended.
struct LogEnd {
  bool clean = true;              ///< at a record boundary, followed by nothing or by zeros only
  std::uint64_t valid_bytes = 0;  ///< up to here it is whole; 0 if not even the segment's header is
  std::string what;               ///< if not clean: what was met there ("000007.wal: record at 8192: checksum mismatch")
  /// If not clean: a whole mark after the bad place says that the place was durable once. Damage then, not a torn tail.
  bool valid_after = false;
  SeqNum first_seq = 0;  ///< of the first operation that it may have, as its header says; 0 = that does not say
};

/// Calls `on_record` with each whole record (the payload is moved in) and its offset in the file, in order, and tells how the
/// segment ended. A Status from `on_record` ends the walk and is returned. A file of at most the header's size holds no record:
/// with a bad header it is a segment whose creation was cut short, not clean and with no valid byte.
/// kCorruption: the header is bad and the file is longer than one, or the header names another file. kUnsupported: written by a
/// newer version; both are named. kNotFound: no such segment.
Result<LogEnd> read_log(FileSystem& fs, const std::string& dir, FileNum file,
                        const std::function<Status(std::string payload, std::uint64_t offset)>& on_record);

/// Cuts a segment at `valid_bytes` and makes that durable, so that the torn end of one crash does not look like damage after the
/// next, when a later segment has records.
Status cut_log(FileSystem& fs, const std::string& dir, FileNum file, std::uint64_t valid_bytes);

}  // namespace ebbtide
