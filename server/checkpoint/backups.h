// Backups that SAVE and BGSAVE make: checkpoints of the database, one directory each, in a directory of their own.
//
//   <backup_dir>/2026-11-21T22-41-07.312Z/     opens as the database was; restored by copying it to where the data directory was
//
// As in Redis the newest one replaces those before it, but for as many as are to be kept. What is in the way of that, a backup
// that was not finished included, goes once a new one is complete; what has another kind of name is not touched.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include <engine/db.h>

#include "command/server_control.h"

namespace ebbtide {

struct BackupSettings {
  std::string data_dir;
  std::string dir;         ///< outside data_dir; made if it is missing
  std::uint64_t keep = 1;  ///< finished backups that stay, the newest; at least 1
};

/// Thread-safe.
class Backups {
 public:
  /// Time of the newest finished backup in `dir`, in seconds of Unix time; `otherwise` if there is none.
  static std::uint64_t newest(const std::string& dir, std::uint64_t otherwise);

  explicit Backups(std::uint64_t last_unix_seconds);
  /// Claims the one place for a backup under way; false if it is taken. Whoever gets it calls run().
  bool begin(std::uint64_t unix_micros);
  /// Makes the backup. Returns its path. kInvalidArgument: the directory lies in the data directory. May take as long as copying
  /// the data, if the two directories are on different file systems.
  Result<std::string> run(Db& db, const BackupSettings& settings, const ServerControl& clock);
  [[nodiscard]] SaveState state() const;

 private:
  mutable std::mutex mutex_;
  SaveState state_;  // guarded by mutex_
};

/// "2026-11-21T22-41-07.312Z"
std::string backup_name(std::uint64_t unix_micros);
/// What backup_name() was given, in seconds; 0 for any other name.
std::uint64_t backup_unix_seconds(const std::string& name);

}  // namespace ebbtide
