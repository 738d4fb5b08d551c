// Backups by SAVE and BGSAVE: checkpoints of the database, one directory each, in a backup directory.
//
//   <backup_dir>/2026-11-21T22-41-07.312Z-3f9a1c07/   opens as the database was; restored by copying it to where the data
//                                                     directory was
//
// The name ends with the id of the database, which its data directory has in the file DATABASE_ID; a directory without one gets
// one when it is opened. Several databases may share a directory of backups: each removes only its own backups,
// unfinished ones included. A directory with any other name, and a symbolic link, is never touched. A backup itself
// has no DATABASE_ID: a database that is made of one is another database, and leaves the backups that were there as they are.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include <engine/db.h>

#include "dispatch/server_control.h"

namespace ebbtide {

struct BackupSettings {
  std::string data_dir;
  std::string dir;  ///< outside data_dir and no symbolic link; made if it is missing, unlike its parent
  std::string id;   ///< of the database
};

/// Thread-safe.
class Backups {
 public:
  /// Time of the database's newest finished backup in `dir`, in seconds of Unix time; `otherwise` if there is none.
  static std::uint64_t newest(const std::string& dir, const std::string& id, std::uint64_t otherwise);

  explicit Backups(std::uint64_t last_unix_seconds);
  /// Claims the right to make a backup; false if another one is under way. After true the caller calls run().
  bool begin(std::uint64_t unix_micros);
  /// Makes the backup. Returns its path. kInvalidArgument: the directory lies in the data directory. May take as long as copying
  /// the data, if the two directories are on different file systems.
  Result<std::string> run(Db& db, const BackupSettings& settings, const ServerControl& clock);
  [[nodiscard]] SaveState state() const;

 private:
  mutable std::mutex mutex_;
  SaveState state_;  // guarded by mutex_
};

/// The id of the database in a data directory, 8 hex digits, from its file DATABASE_ID. One that is missing or damaged is made
/// from `random` and written. An error: it cannot be written.
Result<std::string> database_id(const std::string& data_dir, std::uint64_t random);

/// Removes the database's backups beside `verified`, the path of one, that are older than it: the unfinished ones, and the
/// finished ones beyond `keep`, itself included.
Status remove_older_backups(const std::string& verified, const std::string& id, std::uint64_t keep);

/// "2026-11-21T22-41-07.312Z-3f9a1c07"
std::string backup_name(std::uint64_t unix_micros, const std::string& id);
/// The time that backup_name() was given, in seconds, if the name is one of a backup of the database with this id; else 0.
std::uint64_t backup_unix_seconds(const std::string& name, const std::string& id);

}  // namespace ebbtide
