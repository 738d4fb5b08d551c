// Converts error numbers of the system to a Status, for the real and the simulated file system.
#pragma once

#include <engine/status.h>

namespace ebbtide {

/// Returns an error with the message "<operation> <path>: <reason>". ENOENT becomes kNotFound, EEXIST kExists, ENOSPC and EDQUOT
/// kNoSpace, EOPNOTSUPP and ENOSYS kUnsupported, every other number kIoError.
Status errno_status(Bytes operation, Bytes path, int error);
/// Returns true if the error is kIoError and concerns one file: the device or the file system fails (EIO, EUCLEAN, ...), or
/// permissions forbid the call. Returns false for errors that any file would get, such as too few file descriptors.
[[nodiscard]] bool is_file_error(const Status& status);
/// Returns kCorruption for a read of `length` bytes at `offset`. The message says that the file `path` ends at `end`, before the
/// end of that range.
Status ends_early(Bytes path, std::uint64_t offset, std::size_t length, std::uint64_t end);

}  // namespace ebbtide
