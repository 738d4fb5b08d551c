// The state file of --resume: how far an import is, so that the same command line can continue after an interruption.
//
//   ebbtide-import state 1
//   import NAME            what is imported into which server, and how
//   entries N              entries of RDB files that have been imported or refused
//   list N                 bytes of the file of --list
//   report TEXT            a line each: TransferReport::save()
//   end
//
// An append-only file also has
//
//   commands N             commands whose errors are in the report; CommandSteps has run them
//   complete               all commands have run; what is left is to remove their key
//
// and a copy of a running server
//
//   pass N                 the pass, from 1 on; the report is of this pass
//   known FROM TO          offsets in KnownKeys' file: the arguments of KnownKeys::resume()
//   removed N              keys that this pass has removed
//   missing                an earlier pass has reported keys that are missing
//   database N             a line each: databases that the copy has begun to write
//
// The file is replaced as a whole, and only when the replies to everything that it counts have arrived.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include <engine/result.h>

namespace ebbtide {

struct ImportState {
  /// The most entries between two writes of the state. So an interrupted import may have sent up to this many entries that the
  /// state does not include.
  static constexpr std::uint64_t kMostEntries = 16'384;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;  ///< the most bytes between two writes of the state

  std::string import;
  std::uint64_t entries = 0, list_bytes = 0;
  std::string report;

  std::optional<std::uint64_t> commands;  ///< nullopt: the import's key (CommandSteps) does not exist yet
  bool complete = false;

  std::uint64_t pass = 1, known_from = 0, known_to = 0, removed = 0;
  bool missing = false;
  std::set<std::uint64_t> databases;

  bool operator==(const ImportState&) const = default;
};

/// Returns nullopt if the file does not exist. kCorruption: it is not a state file of --resume, or is incomplete.
Result<std::optional<ImportState>> read_import_state(const std::string& path);
/// Replaces the file. After an error the old file is unchanged. Without `sync` the file survives kill -9, but after a power loss
/// it may be missing or damaged.
Status write_import_state(const std::string& path, const ImportState& state, bool sync = true);

}  // namespace ebbtide
