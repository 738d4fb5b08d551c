// Explains why this process cannot use a directory: the system's error names neither the owner nor the remedy.
#pragma once

#include <string>

namespace ebbtide {

/// Returns "" if this process may list, read and write the directory, or if the directory is missing and may be created.
/// Otherwise returns the reason and the remedy: "/var/lib/ebbtide/data belongs to user 0 (root), and this process is user 10001,
/// which may not write to it: chown -R 10001:10001 /var/lib/ebbtide/data". Returns "" for other errors, too, such as a missing
/// parent.
std::string why_unusable(const std::string& directory);

}  // namespace ebbtide
