// Backups by SAVE and BGSAVE: checkpoints of the database, each a directory inside the backup directory.
//
//   <backup_dir>/2026-11-21T22-41-07.312Z-3f9a1c07/   opens as the database was; restored by copying it to where the data
//                                                     directory was
//
// The name ends with the id of the database. The id is in the file DATABASE_ID of the data directory, which the server creates if
// it is missing. Several databases may share a backup directory: each removes only its own backups, unfinished backups included.
// Directories with other names and symbolic links are never touched. A backup has no DATABASE_ID: a database restored from it
// gets a new id, and never removes the backups of the old id.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include <engine/db.h>

#include "dispatch/server_control.h"

namespace ebbtide {

struct BackupSettings {
  std::string data_dir;
  std::string dir;  ///< outside data_dir, not a symbolic link; created if missing, but then its parent directory must exist
  std::string id;   ///< id of the database
};

/// Makes the backups of one database. Thread-safe.
class Backups {
 public:
  /// Returns the time of the database's newest completed backup in `dir`, in seconds of Unix time; `otherwise` if there is none.
  static std::uint64_t newest(const std::string& dir, const std::string& id, std::uint64_t otherwise);

  explicit Backups(std::uint64_t last_unix_seconds);
  /// Claims the right to make a backup. Returns false if a backup is under way. A caller that gets true must call run().
  bool begin(std::uint64_t unix_micros);
  /// Makes the backup and returns its path. kInvalidArgument: the backup directory is inside the data directory. If data and
  /// backups are on different file systems, this takes as long as copying the data.
  Result<std::string> run(Db& db, const BackupSettings& settings, const ServerControl& clock);
  [[nodiscard]] SaveState state() const;

 private:
  mutable std::mutex mutex_;
  SaveState state_;  // guarded by mutex_
};

/// Returns the id of the database in a data directory, 8 hex digits, from its file DATABASE_ID. If the file is missing or
/// damaged, makes an id from `random` and writes the file. Fails if it cannot be written.
Result<std::string> database_id(const std::string& data_dir, std::uint64_t random);

/// Writes the file DATABASE_ID again if it is missing or has another id. Returns true if it was written.
Result<bool> keep_database_id(const std::string& data_dir, const std::string& id);

/// Removes backups of the database that are older than the backup `verified` and in the same directory. Removes all unfinished
/// ones, and the oldest completed ones until `keep` are left, `verified` included.
Status remove_older_backups(const std::string& verified, const std::string& id, std::uint64_t keep);

/// Returns a name like "2026-11-21T22-41-07.312Z-3f9a1c07".
std::string backup_name(std::uint64_t unix_micros, const std::string& id);
/// If `name` is the name of a backup of the database with this id, returns the backup's time in seconds of Unix time; otherwise
/// 0.
std::uint64_t backup_unix_seconds(const std::string& name, const std::string& id);

}  // namespace ebbtide
