// Small files that the server keeps in the data directory, beside those of the database.
//
// While a database is open, they are in the directory that it has locked, even if the directory was moved and its name leads to another
// one by then. Thread-safe for different files.
#pragma once

#include <cstdint>
#include <string>

#include <engine/result.h>

namespace ebbtide {

/// Returns the content of the file `name` in `data_dir`. Returns kNotFound if there is none, and kCorruption if it is no regular
/// file or has more than `max_bytes`. Never waits for a writer of a pipe.
Result<std::string> read_side_file(const std::string& data_dir, const std::string& name, std::uint64_t max_bytes);

/// Replaces the file `name` in `data_dir` durably. Uses the name with ".tmp" meanwhile, and removes what has that name. After a crash
/// the file has the old or the new content. After an error it has the old content, or, if the directory's sync failed, the new one.
Status write_side_file(const std::string& data_dir, const std::string& name, Bytes content);

}  // namespace ebbtide
