// Reads all of a table and compares it with what the manifest says of it.
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

/// All errors of an open table; once `stopped` returns true, those found until then. Counts what it reads in `check`.
std::vector<Status> errors_of_table(const TableInspector& reader, const FileMeta& meta, const std::function<bool()>& stopped,
                                    TableCheck* check);

/// As errors_of_table(), of a table in `dir` that is opened again, past the page cache of the system: the result is what the drive
/// has, and nothing that is in use leaves memory. A missing file is corruption.
std::vector<Status> errors_on_drive(FileSystem& fs, const std::string& dir, const FileMeta& meta,
                                    const std::function<bool()>& stopped, TableCheck* check);

/// kNotFound as corruption; other errors, and ok, as they are.
Status as_damage(const Status& status);

}  // namespace ebbtide
