// Reads the records of log segments back.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/file_system.h"
#include "wal/log_pieces.h"

namespace ebbtide {

/// The result of reading a segment: how it ends.
struct LogEnd {
  bool clean = true;              ///< true if no bytes, or only zeros, follow the last whole record
  std::uint64_t valid_bytes = 0;  ///< the segment is complete up to this offset; 0 if its header is bad
  std::string what;               ///< if not clean: the fault, such as "000007.wal: record at 8192: checksum mismatch"
  /// If not clean: true if a valid mark after the bad record states that the record was durable. The record is then damage, not a
  /// torn end.
  bool valid_after = false;
  SeqNum first_seq = 0;  ///< seq of the first operation that the segment may have, from its header; 0 = unknown
  /// The segment that the end mark names, which was durable before the mark; kNoFile = there is no end mark.
  FileNum next = kNoFile;
  /// True if the file with the segment's name is not that segment, but a copy of another segment, or not a regular file. Set only
  /// if the visitor has `on_damage`.
  bool foreign = false;
};

/// A bad part of a segment: bytes without a whole record, before a whole record.
struct LogDamage {
  FileNum file = kNoFile;
  std::uint64_t offset = 0;   ///< offset at which the bad part begins; 0 = the segment's header is bad
  std::uint64_t resumes = 0;  ///< offset of the next whole record
  SeqNum next_seq = 0;        ///< seq of the first operation of that record
  SeqNum first_seq = 0;       ///< seq of the first operation that the segment may have, from its header; 0 = unknown
  std::string what;           ///< the fault, such as "000007.wal: record at 8192: checksum mismatch"
  bool durable = false;       ///< true if a valid mark after the bad part states that the part was durable
};
/// Called for each bad part. Returns true to resume reading at `resumes`, or false to end the segment at `offset`. An error
/// ends the reading.
using OnLogDamage = std::function<Result<bool>(const LogDamage&)>;

using OnLogRecord = std::function<Status(std::string payload, std::uint64_t offset)>;
using OnLongLogRecord = std::function<Status(const LogPayload& payload, std::uint64_t offset)>;
inline constexpr std::uint64_t kLongRecordBytes = std::uint64_t{4} << 20;

/// The functions that read_log() calls. An error that one of them returns ends the reading and is returned.
struct LogVisitor {
  /// Called with each whole record, in order. `offset` is the record's offset in the file.
  OnLogRecord on_record;
  /// If set, read_log() searches for the next whole record after a bad one, and calls `on_damage` if it finds one. Records must
  /// then be groups of batches (batch_group.h), or pieces or commit records (log_pieces.h). A bad header then counts as a bad
  /// record, not as an error; if no whole record follows, the segment ends there with LogEnd::valid_after set.
  OnLogDamage on_damage = {};
  /// If not null, a batch in pieces is passed as one record, a group, at the offset of its commit record. Its pieces are not
  /// passed, and a commit record whose pieces cannot be read counts as damaged. If null, all records are passed unchanged.
  LogPieces* pieces = nullptr;
  /// If set, a record longer than kLongRecordBytes is passed to this function instead of `on_record`, without reading its
  /// payload into memory.
  OnLongLogRecord on_long_record = {};
  bool direct = false;  ///< true: reads bypass the system page cache (OpenOptions::direct)
  /// If set, called while zeros at the end of a segment are read, with the number of bytes read since the call before.
  std::function<void(std::uint64_t bytes)> on_zeros = {};
};

/// Reads a segment, calls the functions of `visitor`, and returns how the segment ends. If a segment is no longer than a header
/// and its header is bad, its creation was interrupted: the result is not clean and has no valid byte. Errors, whose messages
/// name the segment: kCorruption if the header is bad and the file is longer than a header, or the header names another file.
/// kUnsupported if a newer version wrote the segment; the message has both versions. kNotFound if there is no such segment.
Result<LogEnd> read_log(FileSystem& fs, const std::string& dir, FileNum file, const LogVisitor& visitor);

/// Returns the file number in the header of the segment `file`, which differs from `file` if the file is a copy of another
/// segment. Returns kNoFile if the header is bad or cannot be read.
FileNum log_owner(FileSystem& fs, const std::string& dir, FileNum file);
/// Like the other read_log(), but passes all records in memory.
Result<LogEnd> read_log(FileSystem& fs, const std::string& dir, FileNum file, const OnLogRecord& on_record,
                        const OnLogDamage& on_damage = {}, LogPieces* pieces = nullptr);

/// Truncates a segment to `valid_bytes`, durably. Call it for the torn end of a crash: once a later segment has records, the
/// torn end would look like damage.
Status cut_log(FileSystem& fs, const std::string& dir, FileNum file, std::uint64_t valid_bytes);

}  // namespace ebbtide
