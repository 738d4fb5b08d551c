// Reads a whole table and compares it with its entry in the manifest.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <engine/status.h>
#include "io/file_system.h"
#include "table/table_reader.h"
#include "version/file_meta.h"

namespace ebbtide {

/// How many pages and entries a check has read.
struct TableCheck {
  std::uint64_t pages = 0, entries = 0;
};

/// Returns all errors of an open table. If `stopped` returns true, returns the errors found so far. Adds to `check` how many
/// pages and entries were read.
std::vector<Status> errors_of_table(const TableInspector& reader, const FileMeta& meta, const std::function<bool()>& stopped,
                                    TableCheck* check);

/// Like errors_of_table(), but opens the table in `dir` again and bypasses the system page cache. So the bytes on the drive are
/// checked, and no page is evicted from memory. A missing file is reported as corruption.
std::vector<Status> errors_on_drive(FileSystem& fs, const std::string& dir, const FileMeta& meta,
                                    const std::function<bool()>& stopped, TableCheck* check);

/// Returns ok if both files of the table are in `dir`, else kCorruption with the name of the missing file. Readers that have a
/// file open do not notice that its name was removed.
Status find_files(FileSystem& fs, const std::string& dir, const FileMeta& meta);

/// Returns kCorruption for kNotFound, and any other status unchanged.
Status as_damage(const Status& status);

}  // namespace ebbtide
