// Imports what RDB files and append-only files contain.
//
// A source is a list of files, read in their order: an RDB file; an append-only file, with an RDB file as its beginning or without; or all
// files of an append-only file's manifest. MULTI and EXEC of append-only files are left out, so that a command that the server does not
// have is the only one missing.
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
  std::vector<std::uint64_t> databases;  ///< only these databases; empty: all. Append-only files are refused if it is set
};

/// Continues an import, and records how far it is.
struct ImportSteps {
  std::uint64_t skipped = 0;  ///< the first entries of RDB files that are not sent, nor reported
  /// Called when all replies to the first `entries` entries have come. An error ends the import.
  std::function<Status(std::uint64_t entries)> record;
  /// Called before the first command of an append-only file, after the replies to all entries have come.
  std::function<Status(std::uint64_t entries)> begin_commands;
  CommandSteps* commands = nullptr;  ///< runs the commands of append-only files
};

/// Returns the files of a source: the file itself, or those of a manifest.
Result<std::vector<std::string>> files_of(const std::string& path);

/// Called with the number of keys and commands so far, and the part of all bytes that is read; it is negative if unknown.
using OnProgress = std::function<void(std::uint64_t done, double share)>;

/// Reads everything without sending it, and counts it in `report`, as if all keys were taken that can be. kCorruption, kUnsupported:
/// the file cannot be imported as a whole. Sets `crc`, if it is not null, to the CRC of all bytes; of several files, to a number of their
/// CRCs.
Status check_files(const FileImport& source, TransferReport* report, std::uint64_t* commands, const OnProgress& progress,
                   std::uint64_t* crc = nullptr);

/// Sends everything, or what `steps` leaves. Errors are those of check_files(), and kIoError: the server is gone.
Status import_files(const FileImport& source, Importer* importer, TransferReport* report, std::uint64_t* commands,
                    const OnProgress& progress, const ImportSteps* steps = nullptr);

}  // namespace ebbtide
