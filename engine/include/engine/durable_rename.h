// Replaces a file durably, for small files that a program keeps beside the database.
#pragma once

#include <string>

#include <engine/status.h>

namespace ebbtide {

class FileSystem;

/// Replaces the file `to` by the file `from` durably: syncs `from`, renames it, and syncs the directory of `to`. No process may
/// have `from` open for writing. After a crash during the call, `to` is the old file or the new one; after a success, always
/// the new one. An error before the rename leaves both files as they are. If only the directory's sync fails, `to` is the new
/// file, but a crash may bring the old one back. If `fs` is null, the real file system is used. Thread-safe for different
/// files.
Status rename_durably(FileSystem* fs, const std::string& from, const std::string& to);

}  // namespace ebbtide
