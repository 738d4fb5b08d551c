// A backup as a stream: a tar archive, compressed by zstd, that any tar reads (tar --zstd -t). The stream can be piped to another
// machine.
//
// CURRENT is the last member. So the files of a truncated stream, unpacked by tar, do not open as a database. The archive has the
// same files as a copy (tools/inspect_copy.cc). zstd's checksum covers all members, in addition to the files' own checksums.
#pragma once

#include <functional>
#include <string>

#include "tools/inspect.h"

namespace ebbtide {

/// Verifies the database of `from`, a backup or the data directory of a stopped server. Then passes the stream to `write` part by
/// part, in order. After an error the stream is incomplete, and receive_database refuses it.
Inspection send_database(FileSystem& fs, const std::string& from, const std::function<Status(Bytes piece)>& write);

/// Makes a data directory from a stream, and verifies it. `read` fills a buffer with at most `size` bytes and returns their
/// number, 0 at the end. `to` must be new or empty. After an error, also after damaged, truncated or hostile input, `to` is
/// removed. The memory needed does not grow with the files.
Inspection receive_database(FileSystem& fs, const std::function<Result<std::size_t>(char* buffer, std::size_t size)>& read,
                            const std::string& to);

}  // namespace ebbtide
