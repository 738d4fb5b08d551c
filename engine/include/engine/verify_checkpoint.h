// Verifies a whole checkpoint, for example before older checkpoints are removed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <engine/result.h>
#include <engine/stats.h>

namespace ebbtide {

class FileSystem;

/// Reads every block of the checkpoint in `dir`, and its log, and checks them against checksums and manifest. No process may
/// have the checkpoint open. Writes nothing. Calls `go_on` repeatedly, with the number of bytes read since the call before.
/// `go_on` may wait to limit the rate of reads; if it returns false, the verification stops with kAborted. If `fs` is null, the
/// real file system is used. The report lists damage; other errors, such as a missing directory, are returned as a Status.
Result<VerifyReport> verify_checkpoint(FileSystem* fs, const std::string& dir,
                                       const std::function<bool(std::uint64_t bytes)>& go_on);

}  // namespace ebbtide
