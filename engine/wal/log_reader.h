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
  bool clean = true;              ///< at a record boundary, followed by nothing or by zeros only
  std::uint64_t valid_bytes = 0;  ///< up to here it is whole; 0 if not even the segment's header is
  std::string what;               ///< if not clean: what was met there ("000007.wal: record at 8192: checksum mismatch")
  /// If not clean: a whole mark after the bad place says that the place was durable once. Damage then, not a torn tail.
  bool valid_after = false;
  SeqNum first_seq = 0;  ///< of the first operation that it may have, as its header says; 0 = that does not say
};

/// A part of a segment without a whole record, and a whole record behind it.
struct LogDamage {
  FileNum file = kNoFile;
  std::uint64_t offset = 0;   ///< where it begins; 0 = with the segment's header
  std::uint64_t resumes = 0;  ///< where the next whole record begins
  SeqNum next_seq = 0;        ///< first operation of that record
  SeqNum first_seq = 0;       ///< as LogEnd::first_seq
  std::string what;           ///< as LogEnd::what
  bool durable = false;       ///< a whole mark further on says that the place was durable once
};
/// Returns whether the reader goes on at `resumes`; otherwise the segment ends at `offset`. An error ends the walk.
using OnLogDamage = std::function<Result<bool>(const LogDamage&)>;

/// Calls `on_record` with each whole record (the payload is moved in) and its offset in the file, in order, and tells how the
/// segment ended. A Status from `on_record` ends the walk and is returned. A file of at most the header's size holds no record:
/// with a bad header it is a segment whose creation was cut short, not clean and with no valid byte.
/// kCorruption: the header is bad and the file is longer than one, or the header names another file. kUnsupported: written by a
/// newer version; both are named. kNotFound: no such segment.
/// With `pieces` a batch in pieces comes as one record, a group, at the place of its commit record, and what else there is of
/// pieces is not handed out; a commit record whose pieces cannot be had is not whole. Without, all records come as they are.
/// With `on_damage` the reader looks for the next whole record behind a bad place (records must be groups of batches,
/// batch_group.h, or parts of one, log_pieces.h), and calls `on_damage` if there is one. Then a bad header is no error: it is such a place, and if no whole
/// record follows, the segment ends there with `valid_after` set.
Result<LogEnd> read_log(FileSystem& fs, const std::string& dir, FileNum file,
                        const std::function<Status(std::string payload, std::uint64_t offset)>& on_record,
                        const OnLogDamage& on_damage = {}, LogPieces* pieces = nullptr);

/// Cuts a segment at `valid_bytes` and makes that durable, so that the torn end of one crash does not look like damage after the
/// next, when a later segment has records.
Status cut_log(FileSystem& fs, const std::string& dir, FileNum file, std::uint64_t valid_bytes);

}  // namespace ebbtide
