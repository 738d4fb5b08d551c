// How the system's error numbers become a Status, the same for the real and the simulated file system.
#pragma once

#include <engine/status.h>

namespace ebbtide {

/// "<operation> <path>: <reason>". ENOENT is kNotFound, EEXIST kExists, ENOSPC and EDQUOT kNoSpace, EOPNOTSUPP and ENOSYS
/// kUnsupported, everything else kIoError.
Status errno_status(Bytes operation, Bytes path, int error);
/// Whether the device failed (EIO), rather than the system lacking something such as file descriptors.
[[nodiscard]] bool is_device_error(const Status& status);
/// kCorruption: a file ends at `end`, inside or before the range that was to be read.
Status ends_early(Bytes path, std::uint64_t offset, std::size_t length, std::uint64_t end);

}  // namespace ebbtide
