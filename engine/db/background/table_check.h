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

/// The pages and entries that were read.
struct TableCheck {
  std::uint64_t pages = 0, entries = 0;
};

/// Returns all errors of an open table; if `stopped` returns true, the errors found so far. Counts pages and entries in `check`.
std::vector<Status> errors_of_table(const TableInspector& reader, const FileMeta& meta, const std::function<bool()>& stopped,
                                    TableCheck* check);

/// Like errors_of_table(), but opens the table in `dir` again and bypasses the system's page cache. So it checks what is on the drive, and
/// evicts no page from memory. A missing file is corruption.
std::vector<Status> errors_on_drive(FileSystem& fs, const std::string& dir, const FileMeta& meta,
                                    const std::function<bool()>& stopped, TableCheck* check);

/// Ok if both files of the table are in `dir`; else corruption that names the missing one. Readers that have a file open do not
/// notice that its name was removed.
Status find_files(FileSystem& fs, const std::string& dir, const FileMeta& meta);

/// kNotFound as corruption; other errors, and ok, as they are.
Status as_damage(const Status& status);

}  // namespace ebbtide
