// Verifies a whole checkpoint, before older ones are removed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <engine/result.h>
#include <engine/stats.h>

namespace ebbtide {

class FileSystem;

/// Reads all of a checkpoint that no process has open: every block of its tables, and its log, against checksums and manifest.
/// Writes nothing. Calls `go_on` with the bytes read since the last call; it may wait. kAborted if it returns false. `fs` null:
/// the real file system. The report lists damage; other errors, such as a missing directory, are returned as a Status.
Result<VerifyReport> verify_checkpoint(FileSystem* fs, const std::string& dir,
                                       const std::function<bool(std::uint64_t bytes)>& go_on);

}  // namespace ebbtide
