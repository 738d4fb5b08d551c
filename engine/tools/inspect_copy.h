// Shared by the tools that copy a database: the list of files to copy, and the checks of source and target.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/inspect.h"

namespace ebbtide {

struct DatabaseFile {
  std::string name;
  bool table = false;  ///< true for a file of a table, which is never written again
};

/// Returns the files that the manifest names: tables, the log from its beginning, and, last, the manifest itself. CURRENT,
/// leftovers and foreign files are not in the list.
Result<std::vector<DatabaseFile>> files_of_database(FileSystem& fs, const std::string& dir, const LoadedManifest& loaded);

/// Locks a data directory against a server. Returns null if no lock can be taken: backups of BGSAVE have no lock file, and a
/// read-only file system allows none. kBusy: a server has the directory open.
Result<std::unique_ptr<FileLock>> lock_source(FileSystem& fs, const std::string& dir);

/// Returns kNotFound if `dir` has no CURRENT: then `dir` is an unfinished backup, or not a data directory.
Status check_source(FileSystem& fs, const std::string& dir);
/// Returns kExists if `dir` exists and is not empty.
Status check_target(FileSystem& fs, const std::string& dir);

}  // namespace ebbtide
