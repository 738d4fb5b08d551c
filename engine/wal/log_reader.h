// Reads the records of log segments back.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/file_system.h"
#include "wal/log_pieces.h"

namespace ebbtide {

/// The end of a segment, as a reader found it.
struct LogEnd {
  bool clean = true;              ///< true if the segment ends at a record boundary, followed by nothing or only by zeros
  std::uint64_t valid_bytes = 0;  ///< the segment is complete up to this offset; 0 if its header is bad
  std::string what;               ///< the fault, if the end is not clean, such as "000007.wal: record at 8192: checksum mismatch"
  /// If not clean: true if a valid mark after the bad place states that the place was durable. The place is then damage, not a
  /// torn end.
  bool valid_after = false;
  SeqNum first_seq = 0;  ///< seq of the first operation that the segment may have, from its header; 0 = unknown
  /// The segment that the end mark names, which was durable before the mark; kNoFile = there is no end mark.
  FileNum next = kNoFile;
  /// True if the file with the segment's name is not that segment, but a copy of another segment, or not a regular file. Set only
  /// if the visitor has `on_damage`.
  bool foreign = false;
};

/// A bad part of a segment: it has no whole record, but a whole record follows it.
struct LogDamage {
  FileNum file = kNoFile;
  std::uint64_t offset = 0;   ///< begin of the bad part; 0 = the segment's header is bad
  std::uint64_t resumes = 0;  ///< offset of the next whole record
  SeqNum next_seq = 0;        ///< seq of the first operation of that record
  SeqNum first_seq = 0;       ///< like LogEnd::first_seq
  std::string what;           ///< like LogEnd::what
  bool durable = false;       ///< true if a valid mark after the bad part states that the part was durable
};
/// Called for each bad part. Return true to resume reading at `resumes`; false ends the segment at `offset`. An error ends the
/// reading.
using OnLogDamage = std::function<Result<bool>(const LogDamage&)>;

/// Reads a segment and returns how it ended. Calls `on_record` with each whole record in order: the payload is moved into the
/// call, `offset` is the record's place in the file. An error of `on_record` ends the reading and is returned. A segment no
/// longer than its header has no record. If its header is bad, the segment's creation was interrupted: the result is not clean
/// and has no valid byte. Errors: kCorruption if the header is bad and the file is longer than a header, or the header names
/// another file. kUnsupported if a newer version wrote the segment. kNotFound if there is no such segment. Messages name the
/// segment, and both versions. With `pieces`, a batch in pieces is passed as one record, a group, at the place of its commit
/// record; the pieces themselves are not passed. A commit record whose pieces cannot be read is not whole. Without `pieces`, all
/// records are passed as they are. With `on_damage`, the reader searches for the next whole record after a bad place and calls
/// `on_damage` if there is one. Records must then be groups of batches (batch_group.h) or parts of a batch (log_pieces.h). A bad
/// header is then no error but such a place; if no whole record follows, the segment ends there with `valid_after` set. With
/// `on_long_record`, a record longer than kLongRecordBytes is passed to that function instead of `on_record`; its payload may
/// still be in the file.
using OnLogRecord = std::function<Status(std::string payload, std::uint64_t offset)>;
using OnLongLogRecord = std::function<Status(const LogPayload& payload, std::uint64_t offset)>;
inline constexpr std::uint64_t kLongRecordBytes = std::uint64_t{4} << 20;
struct LogVisitor {
  OnLogRecord on_record;
  OnLogDamage on_damage = {};
  LogPieces* pieces = nullptr;
  OnLongLogRecord on_long_record = {};
  bool direct = false;  ///< OpenOptions::direct
  /// Called with the number of bytes each time that bytes were found to be zeros: the end of a segment may have many.
  std::function<void(std::uint64_t bytes)> on_zeros = {};
};
Result<LogEnd> read_log(FileSystem& fs, const std::string& dir, FileNum file, const LogVisitor& visitor);
/// Returns the number of the file that a segment's header belongs to; kNoFile if the header is bad or cannot be read.
FileNum log_owner(FileSystem& fs, const std::string& dir, FileNum file);
/// Like the other read_log(), but passes all records in memory.
Result<LogEnd> read_log(FileSystem& fs, const std::string& dir, FileNum file, const OnLogRecord& on_record,
                        const OnLogDamage& on_damage = {}, LogPieces* pieces = nullptr);

/// Truncates a segment to `valid_bytes`, durably. Without this, the torn end of one crash would look like damage after the next
/// crash, when a later segment has records.
Status cut_log(FileSystem& fs, const std::string& dir, FileNum file, std::uint64_t valid_bytes);

}  // namespace ebbtide
