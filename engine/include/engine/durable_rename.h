// Replaces a small file beside the database, durably.
#pragma once

#include <string>

#include <engine/status.h>

namespace ebbtide {

class FileSystem;

/// Replaces `to` by the file `from`, which no process has open for writing, durably: syncs `from`, renames it, and syncs the
/// directory of `to`. After a crash `to` is the old file or the new one, and after success the new one. An error before the
/// rename leaves both files as they are; one after it (of the directory's sync) leaves the new file, which a crash may take back.
/// `fs` null: the real file system. Thread-safe for different files.
Status rename_durably(FileSystem* fs, const std::string& from, const std::string& to);

}  // namespace ebbtide
