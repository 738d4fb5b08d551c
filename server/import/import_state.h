// The file of --resume: how far the import of an RDB file is, so that the same command continues after an interruption.
//
//   ebbtide-import state 1
//   import NAME            what is imported into which server, and how
//   entries N              entries of the file that have been imported or refused
//   list N                 bytes of the file of --list
//   report TEXT            a line each: TransferReport::save()
//   end
//
// The file is replaced as a whole, once the replies to all of these entries have come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <engine/result.h>

namespace ebbtide {

struct ImportState {
  /// The most entries between two states: up to this many entries after the last state may have been sent before an interruption.
  static constexpr std::uint64_t kMostEntries = 16'384;

  std::string import;
  std::uint64_t entries = 0, list_bytes = 0;
  std::string report;

  bool operator==(const ImportState&) const = default;
};

/// Returns nullopt if there is no such file. kCorruption: the file is not one of --resume, or is incomplete.
Result<std::optional<ImportState>> read_import_state(const std::string& path);
/// Replaces the file. After an error the old file is unchanged.
Status write_import_state(const std::string& path, const ImportState& state);

}  // namespace ebbtide
