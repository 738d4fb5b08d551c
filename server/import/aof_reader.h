// Reads the commands of an append-only file, and the list of files in an append-only file's manifest (Redis 7).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "import/input_file.h"

namespace ebbtide {

/// A command of an append-only file.
struct AofCommand {
  std::vector<std::string> arguments;
  std::uint64_t offset = 0;  ///< offset in the file at which the command begins
};

/// Reads the next command; lines that begin with # are skipped. Returns false at the end. kCorruption: the file is damaged, or
/// ends within a command, as after a crash.
Result<bool> read_aof_command(InputFile& input, AofCommand* command);

/// Returns the files that a manifest names, in the order in which they are loaded. The paths include the manifest's directory.
/// kCorruption: a line cannot be parsed.
Result<std::vector<std::string>> read_aof_manifest(InputFile& input);

}  // namespace ebbtide
