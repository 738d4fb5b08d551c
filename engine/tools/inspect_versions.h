// Finds the format versions of the files in a directory, and the first release that opens them all.
#pragma once

#include <string>

#include "tools/inspect.h"

namespace ebbtide {

/// Reads the headers of all files of a data directory or a backup. Reports the format versions for each kind of file, and the
/// first release that opens all of them. A version above this program's is an error that names both versions. A file whose header
/// cannot be read is an error, too.
Inspection inspect_versions(FileSystem& fs, const std::string& dir);

}  // namespace ebbtide
