// The names of the files in the data directory, and functions that parse them.
//
//   NNNNNN.data      data of a table            NNNNNN.wal        write-ahead log segment
//   NNNNNN.meta      metadata of a table        MANIFEST-NNNNNN   log of version edits
//   CURRENT          name of the manifest       LOCK              held by the process that has the directory open
//   RESERVE          reserved space for a full disk; its content has no meaning
//   WORKLOAD         history of the workload; it may be deleted
//   *.tmp            unfinished file; deleted when the database is opened
//
// NNNNNN is a file number in decimal, padded with zeros to six digits, without further leading zeros. Each number has one
// spelling, so a parsed name can be built again from its parts. A number above kMaxFileNum is invalid, since a file with such a
// number would leave too few numbers for later files.
#pragma once

#include <cstdint>
#include <string>

#include <engine/types.h>

namespace ebbtide {

enum class FileKind : std::uint8_t { kData, kMetadata, kLog, kManifest, kCurrent, kLock, kReserve, kTemporary };

/// The largest file number that a name or a manifest may have: enough for 146,000 years at a million numbers a second.
inline constexpr FileNum kMaxFileNum = (FileNum{1} << 62) - 1;

inline constexpr Bytes kCurrentFileName = "CURRENT";
inline constexpr Bytes kLockFileName = "LOCK";
inline constexpr Bytes kReserveFileName = "RESERVE";
inline constexpr Bytes kWorkloadFileName = "WORKLOAD";  ///< not parsed by parse_file_name(), so that opening ignores the file
inline constexpr Bytes kTemporarySuffix = ".tmp";

/// The next four functions return names without a directory. `file` must not be kNoFile.
std::string data_file_name(FileNum file);
std::string metadata_file_name(FileNum file);
std::string log_file_name(FileNum file);
std::string manifest_file_name(FileNum file);

/// Parses `name` (without a directory). Returns true and sets `kind` and `file` if it is a name of the list above except
/// WORKLOAD; `file` is kNoFile for CURRENT, LOCK, RESERVE and *.tmp. Returns false and sets nothing for every other name.
bool parse_file_name(Bytes name, FileKind* kind, FileNum* file);

/// Returns "dir/name", or `name` if `dir` is empty.
std::string join_path(Bytes dir, Bytes name);
/// Returns the parent directory of `path`: "." for a name without directory, "/" for an entry of the root. Trailing slashes are
/// ignored.
std::string parent_path(Bytes path);
/// Returns true if `path` is `dir` or inside it, by spelling alone; relative paths start at the working directory. ".", ".." and
/// double slashes are resolved; symbolic links count as directories.
bool lies_within(Bytes path, Bytes dir);

}  // namespace ebbtide
