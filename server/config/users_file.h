// Writes the users file, and returns its size. The file is outside of any data directory.
#pragma once

#include <cstdint>
#include <string>

#include <engine/status.h>

namespace ebbtide {

/// Replaces the file durably: after a crash it is the complete old or new file. Only its owner may read it. If `path` is a
/// symbolic link, replaces its target, and keeps the link. At most one thread may call this at a time.
Status write_users_file(const std::string& path, const std::string& text);

/// Returns the size of the file, or 0 if it cannot be read.
std::uint64_t users_file_bytes(const std::string& path);

}  // namespace ebbtide
