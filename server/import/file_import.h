// Imports what RDB files and append-only files contain.
//
// A source is a list of files that are read in order: an RDB file; an append-only file, which may begin with an RDB file; or the
// files that an append-only file's manifest names.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "import/importer.h"
#include "import/report.h"

namespace ebbtide {

/// The files to import, and a filter.
struct FileImport {
  std::vector<std::string> files;
  std::vector<std::uint64_t> databases;  ///< only these databases; empty: all. Append-only files are refused if it is set
};

/// Continues an import of one RDB file, and records how far it is.
struct ImportSteps {
  std::uint64_t skipped = 0;       ///< the first entries that are not sent, nor reported
  std::uint64_t most_entries = 0;  ///< the most entries between two calls of `record`
  /// Called when all replies to the first `entries` entries have come. An error ends the import.
  std::function<Status(std::uint64_t entries)> record;
};

/// Returns the files of a source: the file itself, or those of a manifest.
Result<std::vector<std::string>> files_of(const std::string& path);

/// Called with the number of keys and commands so far, and the part of all bytes that is read; it is negative if unknown.
using OnProgress = std::function<void(std::uint64_t done, double share)>;

/// Reads everything without sending it, and counts it in `report`, as if the server took every key of a type that it has.
/// kCorruption, kUnsupported: the file cannot be imported as a whole. Sets `crc`, if it is not null, to the CRC of all bytes of
/// the last file.
Status check_files(const FileImport& source, TransferReport* report, std::uint64_t* commands, const OnProgress& progress,
                   std::uint64_t* crc = nullptr);

/// Sends everything, or what `steps` leaves of one RDB file. Errors are those of check_files(), and kIoError: no connection to
/// the server.
Status import_files(const FileImport& source, Importer* importer, TransferReport* report, std::uint64_t* commands,
                    const OnProgress& progress, const ImportSteps* steps = nullptr);

}  // namespace ebbtide
