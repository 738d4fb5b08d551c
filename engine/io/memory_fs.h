// A file system in memory that can lose power.
//
// All state exists twice: as programs see it (volatile) and as the device has it (durable). The units that are durable or not
// are sectors of 512 bytes in files, and entries in directories:
// 1. sync() and sync_file() make a file's data, size and holes durable, but never its name.
// 2. sync_dir() makes the creations, links, renames and unlinks of one directory durable, but never a file's data. A new
//    directory is an entry of its parent, so it is durable after sync_dir() of the parent.
// 3. After a power loss each unsynced sector has its old content, its new content, or a mix. The size is between the durable and
//    the volatile size. Each unsynced change of a name has happened or not; a rename happens as a whole. Changes of one entry
//    keep their order; changes of different entries do not. So an unlink may survive although an earlier rename does not.
//
// Unlike some real devices, this file system never loses a completed sync and never changes synced sectors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/file_system.h"

namespace ebbtide {

/// The part of the unsynced state that survives a crash.
enum class CrashMode : std::uint8_t {
  kNothing,     ///< only the durable state
  kEverything,  ///< the whole state, as after the process was killed while the machine ran on
  kRandom,      ///< the seed decides for each sector and each change of a name
};

/// Thread-safe. There are two root directories, which exist from the start: the working directory "" (or ".") and "/". The paths
/// "a", "./a" and "a/" are the same entry of the working directory; "/a" is an entry of "/".
class MemoryFileSystem final : public FileSystem {
 public:
  static constexpr std::uint64_t kSectorBytes = 512;

  MemoryFileSystem();
  ~MemoryFileSystem() override;
  MemoryFileSystem(const MemoryFileSystem&) = delete;
  MemoryFileSystem& operator=(const MemoryFileSystem&) = delete;

  /// Returns a copy as the device could be after a power loss now. All of the copy is durable, nothing in it is open or locked,
  /// and it has no capacity limit. The same state, mode and seed give the same copy. This file system does not change.
  [[nodiscard]] std::unique_ptr<MemoryFileSystem> crash_clone(std::uint64_t seed, CrashMode mode = CrashMode::kRandom) const;

  /// Sets the capacity for all files together, in bytes of whole sectors; 0 = no limit. If more bytes are in use already, no file
  /// can grow until enough bytes were freed. An unlinked file counts as long as it is open.
  void set_capacity(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t used_bytes() const;
  /// Returns the sorted paths of all files and directories; the path of a directory ends with a slash. For messages of failing
  /// tests.
  [[nodiscard]] std::vector<std::string> tree() const;

  Result<std::unique_ptr<WritableFile>> create(const std::string& path, const OpenOptions& options = {}) override;
  Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path, const OpenOptions& options = {}) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status unlink(const std::string& path) override;
  Status link(const std::string& from, const std::string& to) override;
  Status truncate(const std::string& path, std::uint64_t size) override;
  Status sync_file(const std::string& path) override;
  Status sync_dir(const std::string& dir) override;
  Status create_dir(const std::string& dir) override;
  Status remove_dir(const std::string& dir) override;
  Result<std::vector<std::string>> list(const std::string& dir) override;
  Result<std::uint64_t> file_size(const std::string& path) override;
  [[nodiscard]] bool exists(const std::string& path) override;
  Status punch_hole(const std::string& path, std::uint64_t offset, std::uint64_t length) override;
  Result<std::uint64_t> allocated_bytes(const std::string& path) override;
  Result<std::uint64_t> link_count(const std::string& path) override;
  Result<DiskSpace> disk_space(const std::string& dir) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;

 private:
  class Disk;
  class Writer;
  class Reader;
  class Lock;
  explicit MemoryFileSystem(std::shared_ptr<Disk> disk);
  const std::shared_ptr<Disk> disk_;  // shared with the open files, which may outlive this object
};

}  // namespace ebbtide
