// Replaces a small file beside the database, durably.
#pragma once

#include <string>

#include <engine/status.h>

namespace ebbtide {

class FileSystem;

/// Replaces the file `to` by the file `from` durably: syncs `from`, renames it, and syncs the directory of `to`. No process may
/// have `from` open for writing. After a crash `to` is the old file or the new one; after success, the new one. An error before
/// the rename leaves both files as they are. An error of the directory's sync leaves the new file, but a crash may bring the old
/// file back. If `fs` is null, the real file system is used. Thread-safe for different files.
Status rename_durably(FileSystem* fs, const std::string& from, const std::string& to);

}  // namespace ebbtide
