// Explains why this process cannot use a directory or a file in it. The system's error text names neither the owner nor the
// remedy.
#pragma once

#include <cstdint>
#include <string>

namespace ebbtide {

/// Returns "" if this process may list, read and write the directory, or if the directory is missing and may be created.
/// Otherwise returns the reason and the remedy: "/var/lib/ebbtide/data belongs to user 0 (root), and this process is user 10001,
/// which may not write to it: chown -R 10001:10001 /var/lib/ebbtide/data". Returns "" for other errors, too, such as a missing
/// parent.
std::string why_unusable(const std::string& directory);

/// Returns what an administrator can do about a system error, because of which the database in `directory` cannot be opened or
/// written. Returns "" for other kinds of errors. `error`: the error's text, which has the path of the file. `file_limit`: this
/// process's limit of open files. For example "data/CURRENT belongs to user 0 (root), its mode is 0600, and this process is user
/// 10001: chown 10001:10001 data/CURRENT".
std::string remedy_for(const std::string& error, const std::string& directory, std::uint64_t file_limit);

/// Returns a warning if every user of the machine may remove and replace files in the directory; otherwise "".
std::string exposed_directory(const std::string& directory);

}  // namespace ebbtide
