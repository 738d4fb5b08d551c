// Small files that the server keeps in the data directory, beside the files of the database.
//
// While a database is open, these functions use the directory that it has locked, even if that directory was moved and another
// one has its name now. Thread-safe for different files.
#pragma once

#include <cstdint>
#include <string>

#include <engine/result.h>

namespace ebbtide {

/// Returns the content of the file `name` in `data_dir`. Returns kNotFound if there is no such file, and kCorruption if it is not
/// a regular file or has more than `max_bytes`. Never waits for a writer, even if the name belongs to a pipe.
Result<std::string> read_side_file(const std::string& data_dir, const std::string& name, std::uint64_t max_bytes);

/// Replaces the file `name` in `data_dir` durably. Writes the content to `name`.tmp first, which replaces any file of that name.
/// After a crash the file has the old or the new content. After an error it has the old content, or, if the directory's sync
/// failed, the new one.
Status write_side_file(const std::string& data_dir, const std::string& name, Bytes content);

}  // namespace ebbtide
