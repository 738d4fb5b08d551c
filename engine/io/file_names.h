// Names in the data directory: what each file is called, and what a name says of its file.
//
//   NNNNNN.data      data of a table            NNNNNN.wal        write-ahead log segment
//   NNNNNN.meta      metadata of a table        MANIFEST-NNNNNN   log of version edits
//   CURRENT          name of the manifest       LOCK              held by the process that has the directory open
//   RESERVE          space kept back for a full disk, with nothing in it
//   *.tmp            half-made; deleted at open
//
// NNNNNN is a file number in decimal, at least six digits, zero-padded to six, no longer than it must be: each number has
// exactly one spelling, so that a parsed name can always be built again from its parts. A number past kMaxFileNum is none:
// counting on from it would end soon.
#pragma once

#include <cstdint>
#include <string>

#include <engine/types.h>

namespace ebbtide {

enum class FileKind : std::uint8_t { kData, kMetadata, kLog, kManifest, kCurrent, kLock, kReserve, kTemporary };

/// The largest file number that is ever accepted, from a name or from a manifest: at a million a second, 146,000 years.
inline constexpr FileNum kMaxFileNum = (FileNum{1} << 62) - 1;

inline constexpr Bytes kCurrentFileName = "CURRENT";
inline constexpr Bytes kLockFileName = "LOCK";
inline constexpr Bytes kReserveFileName = "RESERVE";
inline constexpr Bytes kTemporarySuffix = ".tmp";

/// Names without a directory. `file` is not kNoFile.
std::string data_file_name(FileNum file);
std::string metadata_file_name(FileNum file);
std::string log_file_name(FileNum file);
std::string manifest_file_name(FileNum file);

/// True if `name` (without a directory) is one of the above; then `kind` is set, and `file` too: kNoFile for CURRENT, LOCK,
/// RESERVE and *.tmp. False, with nothing set, for every other name: such a file is not ours.
bool parse_file_name(Bytes name, FileKind* kind, FileNum* file);

/// "dir/name"; just `name` if `dir` is empty.
std::string join_path(Bytes dir, Bytes name);
/// The directory that `path` is an entry of: "." for a bare name, "/" for an entry of the root. Trailing slashes do not count.
std::string parent_path(Bytes path);
/// Whether `path` is `dir` or lies in it, going by their spelling alone, relative ones from the working directory: ".", ".." and
/// doubled slashes do not count, links are taken for directories.
bool lies_within(Bytes path, Bytes dir);

}  // namespace ebbtide
