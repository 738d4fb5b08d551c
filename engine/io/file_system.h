// The interface to the operating system's files. Nothing else in the engine opens, reads, writes, renames, syncs or unlinks.
//
// Implementations: posix_fs (real), memory_fs (simulated sectors and directory entries, power loss by seed), fault_fs (errors at
// the n-th operation, over any other), trace_fs (a line per operation, over any other).
//
// Paths are plain strings, "dir/name". Errors name operation and path. Written data is durable after sync() of the file. A new,
// renamed or linked name is durable after sync_dir() of its directory. truncate() and punch_hole() are durable after sync_file().
// A new directory is an entry of its parent, and durable after sync_dir() of that.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <engine/result.h>
#include <engine/types.h>
#include "io/read_queue.h"

namespace ebbtide {

/// Appends only. One thread at a time may append; one other may call sync() or size() meanwhile. A sync covers at least the
/// appends that had returned before it began. The destructor closes the file without a sync.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  /// Appends all of it, in order, in as few system calls as possible. After an error the file's tail is undefined.
  virtual Status append(std::span<const Bytes> pieces) = 0;
  Status append(Bytes data) { return append(std::span<const Bytes>(&data, 1)); }
  /// Makes data and size durable. After an error the file is lost: never retry on it.
  virtual Status sync() = 0;
  /// Starts to write appended data to the device, and waits for the data that the previous call started to write. So a later
  /// sync, of this file or another, waits for the data of at most two calls. Makes nothing durable. Errors: as for sync().
  virtual Status write_back() { return Status::ok(); }
  virtual Status close() = 0;
  /// Bytes appended so far.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
};

/// Tells files apart that had the same name one after the other. All zero: not known.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// The system's handle of an open file, for a ReadQueue.
struct NativeFile {
  int descriptor = -1;          ///< -1: not a file of the operating system
  std::uint64_t alignment = 1;  ///< of offset, length and memory of a read
  std::shared_ptr<const void> keeps_open =
      nullptr;  ///< the descriptor is valid as long as this; null: as long as the file object
};

/// Reads at any offset. Thread-safe.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;
  /// Reads exactly `length` bytes into `buffer`; kCorruption if the file ends before.
  virtual Status read(std::uint64_t offset, std::size_t length, char* buffer) const = 0;
  /// Like read(), but never waits for the device: returns false, with nothing read, if it would have to.
  virtual Result<bool> read_if_cached(std::uint64_t offset, std::size_t length, char* buffer) const = 0;
  /// Size of the file when it was opened.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  [[nodiscard]] virtual NativeFile native() const { return {}; }
  /// Of the file when it was opened.
  [[nodiscard]] virtual FileIdentity identity() const { return {}; }
};

class FileLock {
 public:
  virtual ~FileLock() = default;
};

struct DiskSpace {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;  ///< available to this user
};

struct OpenOptions {
  bool direct = false;  ///< reads bypass the page cache if possible; callers need not align them
};

/// Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// Creates an empty file, mode 0600; kExists if the name is taken.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path, const OpenOptions& options = {}) = 0;
  /// kNotFound if there is no such file.
  virtual Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path, const OpenOptions& options = {}) = 0;
  /// Null if this file system has no read queue.
  virtual std::unique_ptr<ReadQueue> new_read_queue() { return nullptr; }
  /// Replaces `to` if it exists.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status unlink(const std::string& path) = 0;
  virtual Status link(const std::string& from, const std::string& to) = 0;
  /// Truncates the file, or extends it with zeros.
  virtual Status truncate(const std::string& path, std::uint64_t size) = 0;
  /// Makes data, size and holes of a file durable that is not open for writing: after truncate() and punch_hole().
  virtual Status sync_file(const std::string& path) = 0;
  /// Makes all creations, renames, links and unlinks in the directory durable. An empty name is the working directory.
  virtual Status sync_dir(const std::string& dir) = 0;
  /// Mode 0700; ok if it exists.
  virtual Status create_dir(const std::string& dir) = 0;
  /// Removes an empty directory.
  virtual Status remove_dir(const std::string& dir) = 0;
  /// Names of the entries of a directory, in no order.
  virtual Result<std::vector<std::string>> list(const std::string& dir) = 0;
  virtual Result<std::uint64_t> file_size(const std::string& path) = 0;
  [[nodiscard]] virtual bool exists(const std::string& path) = 0;
  /// Zeros the range up to the end of the file and frees the space of all whole file system blocks in it. Other bytes in the same
  /// blocks stay unchanged, even after a power loss. kUnsupported where the file system cannot do it.
  virtual Status punch_hole(const std::string& path, std::uint64_t offset, std::uint64_t length) = 0;
  /// Bytes that the file occupies on disk.
  virtual Result<std::uint64_t> allocated_bytes(const std::string& path) = 0;
  /// Number of names (hard links) of the file. If more than one, a checkpoint may rely on its bytes, holes included.
  virtual Result<std::uint64_t> link_count(const std::string& path) = 0;
  virtual Result<DiskSpace> disk_space(const std::string& dir) = 0;
  /// Creates a file of `bytes` bytes that occupies all of them, so that as many are freed when it is unlinked. The file is
  /// synced, its name is not. Its content has no meaning. kExists as create(); after any error the file is removed if possible.
  /// May take as long as writing.
  virtual Status allocate(const std::string& path, std::uint64_t bytes);
  /// Locks the file until the result is destroyed or the process ends. kBusy, naming the path, if another process or object holds
  /// it.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
};

/// The real file system. Never destroyed.
FileSystem* posix_file_system();

/// Far above any file that is read whole: metadata of the largest tables has a few dozen MiB.
inline constexpr std::uint64_t kMaxWholeFileBytes = std::uint64_t{1} << 30;
/// Reads a whole file. kCorruption, before anything is allocated, if it has more than `max_bytes`.
Result<std::string> read_file(FileSystem& fs, const std::string& path, std::uint64_t max_bytes = kMaxWholeFileBytes);
/// Copies `length` bytes of a file, from `offset` on, to a new file; syncs it, but not its name. kExists as create(); kCorruption
/// if the source is shorter. After any other error the new file is removed if possible.
Status copy_file(FileSystem& fs, const std::string& from, const std::string& to, std::uint64_t length, std::uint64_t offset = 0);
/// Writes dir/name.tmp, syncs it, renames it over dir/name and syncs the directory. After a crash the file has the old or the new
/// content, never a mix.
Status write_file_atomically(FileSystem& fs, const std::string& dir, const std::string& name, Bytes content);

}  // namespace ebbtide
