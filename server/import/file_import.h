// Imports RDB files and append-only files.
//
// A source is a list of files, read in order. It is one RDB file, or one append-only file, which may begin with an RDB file, or
// all files that a manifest of append-only files names. MULTI and EXEC of append-only files are skipped: otherwise a command that
// the server does not have would make its whole transaction fail.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "import/command_steps.h"
#include "import/importer.h"
#include "import/report.h"

namespace ebbtide {

/// The files to import, and a filter.
struct FileImport {
  std::vector<std::string> files;
  std::vector<std::uint64_t> databases;  ///< import only these databases; empty: all; if not empty, append-only files are refused
};

/// The position at which an import continues, and functions that record its progress.
struct ImportSteps {
  std::uint64_t skipped = 0;  ///< number of entries at the start of the RDB files that are neither sent nor reported
  /// Records that the replies to the first `entries` entries have arrived. An error ends the import.
  std::function<Status(std::uint64_t entries)> record;
  /// Prepares the commands of an append-only file. The import calls this before the first one, when the replies to all entries
  /// have arrived.
  std::function<Status(std::uint64_t entries)> begin_commands;
  CommandSteps* commands = nullptr;  ///< runs the commands of append-only files
};

/// Returns the files of a source: `path` itself, or the files that it names if it is a manifest.
Result<std::vector<std::string>> files_of(const std::string& path);

/// Gets the number of keys and commands so far, and the share of all bytes that was read; negative if unknown.
using OnProgress = std::function<void(std::uint64_t done, double share)>;

/// Reads the whole source without sending anything. `report` counts each key as taken, unless the server does not have its type.
/// kCorruption, kUnsupported: the source cannot be imported completely. If `crc` is not null, sets it to the CRC of all bytes;
/// for several files, to a number computed from their CRCs.
Status check_files(const FileImport& source, TransferReport* report, std::uint64_t* commands, const OnProgress& progress,
                   std::uint64_t* crc = nullptr);

/// Sends everything, or what remains according to `steps`. Errors are those of check_files(), and kIoError: the connection is
/// lost.
Status import_files(const FileImport& source, Importer* importer, TransferReport* report, std::uint64_t* commands,
                    const OnProgress& progress, const ImportSteps* steps = nullptr);

}  // namespace ebbtide
