// Maps the system's error numbers to a Status, the same for the real and the simulated file system.
#pragma once

#include <engine/status.h>

namespace ebbtide {

/// "<operation> <path>: <reason>". ENOENT is kNotFound, EEXIST kExists, ENOSPC and EDQUOT kNoSpace, EOPNOTSUPP and ENOSYS
/// kUnsupported, everything else kIoError.
Status errno_status(Bytes operation, Bytes path, int error);
/// True if the device failed (EIO); false for other errors, such as too few file descriptors.
[[nodiscard]] bool is_device_error(const Status& status);
/// kCorruption: a file ends at `end`, before the end of the range to read.
Status ends_early(Bytes path, std::uint64_t offset, std::size_t length, std::uint64_t end);

}  // namespace ebbtide
