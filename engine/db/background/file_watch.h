// Notices when the data directory was moved away, replaced or removed. Also notices when files to which the database writes were
// removed, replaced, truncated or changed, by another program or by the drive.
//
// A directory that was moved away still takes all writes (FileSystem::lock), but the next start would not find them. So once a
// second the watch checks that the directory's path still leads to it. If not, the database is read-only until the path leads to
// the directory again. The watch also checks the file LOCK, and creates and locks it again if it was removed
// (docs/decisions/0052).
//
// The process still has a removed or replaced file open, so writes to it succeed; but the next start would not find them. Once a
// second, and when the database closes, the watch checks the log's segments, the manifest and CURRENT. If one of them is not as
// the database left it, the log or the manifest counts as failed, and the database recovers as after a failed write (health.h).
// It flushes the memtables, and begins a new segment and a new manifest. So no acknowledged write is lost if, for example, an
// administrator removes a file.
//
// A file that was truncated may have its old size again after the next write, with a hole before the new bytes. Since these files
// are only appended to, the watch notes the last bytes at each check, and compares them at the next one. A copy of the same size
// and content is noticed by its inode.
//
// The watch reads whole files in two cases. It reads log and manifest 30 times while the scrub reads all tables once. And it
// reads a file soon if the file's time of the last write has changed although the database wrote nothing.
//
// For tables only the names are checked, once a minute. If a table's file was removed, this is logged: the file can be read as
// long as it is open, but the next start would not find it. Readers, merges and the scrub find damage to tables (quarantine.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <engine/events.h>
#include <engine/result.h>
#include <engine/types.h>
#include "base/clock.h"
#include "base/mutex.h"
#include "io/file_system.h"
#include "wal/log_segment.h"

namespace ebbtide {

/// Thread-safe.
class FileWatch {
 public:
  struct Env {
    FileSystem* fs = nullptr;
    std::string dir;
    const Clock* clock = nullptr;
    std::function<bool()> healthy;  ///< false while the database is read-only after a failure: then nothing is checked
    std::function<Result<std::string>()> renew_lock;  ///< FileLock::renew
    std::function<Status()> check_directory;          ///< FileLock::check_directory
    std::function<void(const Status&)> directory_lost;
    std::function<std::vector<LogSegment>()> segments;     ///< returns the log's segments, each with its bytes so far
    std::function<void(FileNum, const Status&)> log_lost;  ///< makes the log fail; no effect if it no longer has the segment
    /// ManifestEditor::check_manifest
    std::function<Status(const std::function<Status(FileNum manifest, std::uint64_t bytes)>&)> with_manifest;
    std::function<void(const Status&)> manifest_lost;
    /// Like manifest_lost, but without effect if the database has another manifest by now. May wait for the device.
    std::function<void(FileNum, const Status&)> manifest_damaged;
    std::function<std::set<std::string>()> table_files;  ///< returns the names of the files of all live tables
    std::function<void(std::function<void()>)> submit;   ///< runs a function, which reads, in the background
    std::function<bool()> closing;
    std::function<void(Severity, const std::string&)> log;
  };

  explicit FileWatch(Env env) : env_(std::move(env)) {}

  /// Sets the time in ms in which the scrub reads all tables once. 0 = log and manifest are read as a whole only if the time of
  /// their last write is suspicious.
  void set_scrub_interval(Millis interval) { scrub_interval_ = interval; }
  /// Checks the directory and all files if the last check is a second old.
  void tick() EXCLUDES(mutex_);
  /// Checks the directory and all files, and reads the manifest. Returns false if one of them was lost. May wait for the device.
  bool check_now() EXCLUDES(mutex_);

 private:
  /// A file as a check has found it, for the comparison at the next check.
  struct Noted {
    std::uint64_t offset = 0;  // offset of `bytes` in the file
    std::string bytes;         // the last bytes that the database wrote
    std::uint64_t size = 0;    // number of bytes that the database had written
    FileIdentity identity;
    std::uint64_t last_write = 0;
  };
  /// A file that is to be read and checked as a whole.
  struct Content {
    FileNum file = kNoFile;
    std::uint64_t bytes = 0;
    bool is_manifest = false;
  };
  bool check_all() REQUIRES(mutex_);
  bool check_lock() REQUIRES(mutex_);
  Status check(const std::string& name, const Content& content, std::uint32_t magic, bool open) REQUIRES(mutex_);
  Status check_noted(const std::string& path, const Noted& before, const RandomAccessFile& file, bool open);
  Status check_manifest(FileNum manifest, std::uint64_t bytes) REQUIRES(mutex_);
  void read_contents() REQUIRES(mutex_);
  void look_for_tables();
  bool read_content(const Content& content);
  [[nodiscard]] Result<std::uint64_t> whole_manifest(FileNum file) const;
  [[nodiscard]] Result<std::uint64_t> whole_log(FileNum file) const;

  const Env env_;
  std::atomic<Millis> scrub_interval_{0};
  std::atomic<bool> reading_{false};      // a background task reads whole files, or looks for missing tables
  std::set<std::string> missing_tables_;  // table files whose removal was logged; only that background task uses the set
  Mutex mutex_;
  std::uint64_t tables_ns_ GUARDED_BY(mutex_) = 0;  // mono time of the last search for missing table files, or of the first check
  std::uint64_t last_ns_ GUARDED_BY(mutex_) = 0;
  std::uint64_t contents_ns_ GUARDED_BY(mutex_) = 0;       // mono time of the last reading of all files, or of the first check
  std::map<std::string, Noted> noted_ GUARDED_BY(mutex_);  // by name: the last bytes of each file at this check
  std::map<std::string, Noted> noted_before_ GUARDED_BY(mutex_);  // by name: the last bytes of each file at the previous check
  std::map<std::string, Content> all_ GUARDED_BY(mutex_);         // by name: all files that this check has seen
  std::map<std::string, Content> suspects_ GUARDED_BY(mutex_);    // by name: files to read as a whole soon
  std::string lock_problem_ GUARDED_BY(mutex_);                   // last problem with LOCK, "" = none; a change is logged
};

}  // namespace ebbtide
