// Reads segments back.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/file_system.h"
#include "wal/log_pieces.h"

namespace ebbtide {

/// How a segment ended.
struct LogEnd {
  bool clean = true;              ///< ended at a record boundary, followed by nothing or only zeros
  std::uint64_t valid_bytes = 0;  ///< complete up to here; 0 if the segment's header is bad
  std::string what;               ///< if not clean: the fault ("000007.wal: record at 8192: checksum mismatch")
  /// If not clean: a valid mark after the bad place states that the place was durable. So it is damage, not a torn end.
  bool valid_after = false;
  SeqNum first_seq = 0;  ///< seq of the first operation it may have, by its header; 0 = unknown
};

/// A part of a segment without a whole record, followed by a whole record.
struct LogDamage {
  FileNum file = kNoFile;
  std::uint64_t offset = 0;   ///< where it begins; 0 = with the segment's header
  std::uint64_t resumes = 0;  ///< where the next whole record begins
  SeqNum next_seq = 0;        ///< first operation of that record
  SeqNum first_seq = 0;       ///< as LogEnd::first_seq
  std::string what;           ///< as LogEnd::what
  bool durable = false;       ///< a valid mark after it states that the place was durable
};
/// Returns true to resume at `resumes`; otherwise the segment ends at `offset`. An error ends the reading.
using OnLogDamage = std::function<Result<bool>(const LogDamage&)>;

/// Calls `on_record` with each whole record (the payload is moved in) and its offset in the file, in order, and returns how the
/// segment ended. An error of `on_record` ends the reading and is returned. A file of at most the header's size has no record:
/// with a bad header it is a segment whose creation was interrupted, not clean and without a valid byte.
/// kCorruption: the header is bad and the file is longer than one, or the header names another file. kUnsupported: written by a
/// newer version; both are named. kNotFound: no such segment.
/// With `pieces`, a batch in pieces is passed as one record, a group, at the place of its commit record; other pieces are not
/// passed. A commit record whose pieces cannot be read is not whole. Without `pieces`, all records are passed as they are.
/// With `on_damage`, the reader searches for the next whole record after a bad place and calls `on_damage` if there is one.
/// Records must be groups of batches (batch_group.h) or parts of one (log_pieces.h). A bad header is then no error but such a
/// place; if no whole record follows, the segment ends there with `valid_after` set.
/// With `on_long_record`, a record longer than kLongRecordBytes is passed to it instead; its payload may still be in the file.
using OnLogRecord = std::function<Status(std::string payload, std::uint64_t offset)>;
using OnLongLogRecord = std::function<Status(const LogPayload& payload, std::uint64_t offset)>;
inline constexpr std::uint64_t kLongRecordBytes = std::uint64_t{4} << 20;
struct LogVisitor {
  OnLogRecord on_record;
  OnLogDamage on_damage = {};
  LogPieces* pieces = nullptr;
  OnLongLogRecord on_long_record = {};
};
Result<LogEnd> read_log(FileSystem& fs, const std::string& dir, FileNum file, const LogVisitor& visitor);
/// The same, with all records in memory.
Result<LogEnd> read_log(FileSystem& fs, const std::string& dir, FileNum file, const OnLogRecord& on_record,
                        const OnLogDamage& on_damage = {}, LogPieces* pieces = nullptr);

/// Truncates a segment to `valid_bytes`, durably. Else the torn end of one crash would look like damage after the next, when a
/// later segment has records.
Status cut_log(FileSystem& fs, const std::string& dir, FileNum file, std::uint64_t valid_bytes);

}  // namespace ebbtide
