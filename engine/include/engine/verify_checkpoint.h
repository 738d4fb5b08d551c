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
/// Writes nothing. `go_on` is called with the bytes that were read since the last time, and may wait; kAborted if it returns
/// false. `fs` null: the real one. An error that is no damage, as when the directory is gone, is the Result's.
Result<VerifyReport> verify_checkpoint(FileSystem* fs, const std::string& dir,
                                       const std::function<bool(std::uint64_t bytes)>& go_on);

}  // namespace ebbtide
