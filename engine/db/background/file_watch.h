// Notices that another program moved, replaced or removed the data directory, or removed, replaced or truncated files to which
// the running database writes.
//
// A directory that was moved away still takes all writes (FileSystem::lock), but the next start would not find them. So once a
// second the watch checks that the directory's name leads to it. If not, the database is read-only until the directory is back.
//
// Writes to a file that was removed or replaced succeed, since the process has it open; but the next start does not find them.
// Once a second the watch checks the log's segments, the manifest and CURRENT. If one of them is not as the database left it, the
// log or the manifest counts as failed, and the database heals as after a failed write (health.h): it flushes the memtables and
// begins a new segment and a new manifest. So an administrator's error costs no write that was acknowledged.
//
// A file that was truncated may have its old size again after the next write, with a hole before the new bytes. Since these files
// are only appended to, the watch notes the last bytes at each check, and compares them at the next one.
//
// Tables are not checked here: readers, merges and the scrub find damage to them (quarantine.h), and an operator can replace them
// by a copy.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <engine/status.h>
#include "base/clock.h"
#include "io/file_system.h"
#include "wal/log_segment.h"

namespace ebbtide {

/// Checks the files of the running database. Called by one thread at a time.
class FileWatch {
 public:
  struct Env {
    FileSystem* fs = nullptr;
    std::string dir;
    const Clock* clock = nullptr;
    std::function<bool()> healthy;            ///< false while the database heals: nothing is checked
    std::function<Status()> check_directory;  ///< FileLock::check_directory
    std::function<void(const Status&)> directory_lost;
    std::function<std::vector<LogSegment>()> segments;     ///< returns the log's segments, each with its bytes so far
    std::function<void(FileNum, const Status&)> log_lost;  ///< no effect if the log does not have the segment any more
    /// ManifestEditor::check_manifest
    std::function<Status(const std::function<Status(FileNum manifest, std::uint64_t bytes)>&)> with_manifest;
    std::function<void(const Status&)> manifest_lost;
  };

  explicit FileWatch(Env env) : env_(std::move(env)) {}

  /// Checks the directory and all files if the last check is a second old.
  void tick();

 private:
  /// The last bytes of a file at a check, and their offset in the file.
  struct Noted {
    std::uint64_t offset = 0;
    std::string bytes;
  };
  Status check(const std::string& name, std::uint64_t bytes, std::uint32_t magic);
  Status check_manifest(FileNum manifest, std::uint64_t bytes);

  const Env env_;
  std::uint64_t last_ns_ = 0;
  std::map<std::string, Noted> noted_, noted_before_;  // by file name: from this check, and from the check before
};

}  // namespace ebbtide
