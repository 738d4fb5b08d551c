// The interface to the operating system's files. No other part of the engine opens, reads, writes, renames, syncs or unlinks
// files.
//
// Implementations:
//   posix_fs    the real files
//   memory_fs   simulates sectors and directory entries, and power losses; a seed decides what is lost
//   fault_fs    over another file system: injects an error at the n-th call
//   trace_fs    over another file system: records a line of text per call
//
// Paths are plain strings, "dir/name". Errors name the operation and the path. Written data is durable after sync() of the file.
// A new, renamed or linked name is durable after sync_dir() of its directory. truncate() and punch_hole() are durable after
// sync_file(). A new directory is an entry of its parent, so it is durable after sync_dir() of the parent.
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

/// A file that is only appended to. One thread at a time may append; one other thread may call sync() or size() meanwhile. A sync
/// covers at least the appends that had returned before the sync began. The destructor closes the file without a sync.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  /// Appends the bytes of all `pieces`, in order, in as few system calls as possible. After an error the end of the file is
  /// undefined.
  virtual Status append(std::span<const Bytes> pieces) = 0;
  Status append(Bytes data) { return append(std::span<const Bytes>(&data, 1)); }
  /// Makes data and size durable. After an error the file is unusable: never retry on it.
  virtual Status sync() = 0;
  /// Starts to write appended data to the device, and waits for the data that the previous write_back() started to write. So a
  /// later sync, of this file or another, waits for the data of at most two write_back() calls. Makes nothing durable. Errors
  /// are as for sync().
  virtual Status write_back() { return Status::ok(); }
  virtual Status close() = 0;
  /// Number of bytes appended so far.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
};

/// Distinguishes files that had the same name one after the other. All members 0: unknown.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// The operating system's descriptor of an open file, for a ReadQueue.
struct NativeFile {
  int descriptor = -1;          ///< -1: not a file of the operating system
  std::uint64_t alignment = 1;  ///< alignment that offset, length and memory of a read must have, in bytes
  /// The descriptor is valid as long as this pointer is held; null: as long as the file object lives.
  std::shared_ptr<const void> keeps_open = nullptr;
};

/// Reads at any offset. Thread-safe.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;
  /// Reads exactly `length` bytes into `buffer`; returns kCorruption if the file is shorter.
  virtual Status read(std::uint64_t offset, std::size_t length, char* buffer) const = 0;
  /// Like read(), but never waits for the device: returns false, and reads nothing, if read() would wait.
  virtual Result<bool> read_if_cached(std::uint64_t offset, std::size_t length, char* buffer) const = 0;
  /// Size of the file when it was opened.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Returns the offset of the next data at or after `offset`, at most size(). The bytes before it are a hole and read as
  /// zeros. Returns `offset` itself if the file system cannot tell.
  [[nodiscard]] virtual std::uint64_t next_data(std::uint64_t offset) const { return offset; }
  [[nodiscard]] virtual NativeFile native() const { return {}; }
  /// Identity of the file when it was opened.
  [[nodiscard]] virtual FileIdentity identity() const { return {}; }
  /// Returns a number that changes with each write to the file, as it was when the file was opened; 0: unknown. In the real file
  /// system it is the time of the last write, in nanoseconds since 1970.
  [[nodiscard]] virtual std::uint64_t last_write() const { return 0; }
};

/// Thread-safe, except for renew().
class FileLock {
 public:
  virtual ~FileLock() = default;
  /// For the lock of a database's file LOCK: if the file was removed or replaced, locks the file that now has the name, and
  /// creates it if there is none. Returns what happened, for the text log; "" if the name still leads to the locked file.
  /// Returns an error if the file cannot be locked. If another process has locked it, that process may use the same directory,
  /// so check_directory() fails, too, as long as this FileLock exists. One thread at a time may call renew().
  virtual Result<std::string> renew() { return std::string(); }
  /// For the lock of a database's file LOCK: returns ok if the name of its directory still leads to the directory that was
  /// locked, and no other process has locked a new file LOCK (renew()). Otherwise returns kIoError; the message says what
  /// happened and what to do. Returns ok if the device fails during the check.
  [[nodiscard]] virtual Status check_directory() const { return Status::ok(); }
};

struct DiskSpace {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;  ///< bytes available to this user
};

struct OpenOptions {
  bool direct = false;  ///< reads bypass the system page cache if possible; callers need not align them
};

/// Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// Creates an empty file, mode 0600. Returns kExists if the name is in use.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path, const OpenOptions& options = {}) = 0;
  /// Opens a file for reading. Returns kNotFound if there is no such file.
  virtual Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path, const OpenOptions& options = {}) = 0;
  /// Returns a new read queue; null if this file system has none.
  virtual std::unique_ptr<ReadQueue> new_read_queue() { return nullptr; }
  /// Renames a file. If `to` exists, it is replaced.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status unlink(const std::string& path) = 0;
  virtual Status link(const std::string& from, const std::string& to) = 0;
  /// Truncates the file to `size`, or extends it with zeros.
  virtual Status truncate(const std::string& path, std::uint64_t size) = 0;
  /// Makes data, size and holes of a file durable. Call it after truncate() or punch_hole() of a file that is not open for
  /// writing.
  virtual Status sync_file(const std::string& path) = 0;
  /// Makes all creations, renames, links and unlinks in the directory durable. An empty name means the working directory.
  virtual Status sync_dir(const std::string& dir) = 0;
  /// Creates a directory, mode 0700. Returns ok if it exists.
  virtual Status create_dir(const std::string& dir) = 0;
  /// Removes an empty directory.
  virtual Status remove_dir(const std::string& dir) = 0;
  /// Returns the names of the entries of a directory, in no order.
  virtual Result<std::vector<std::string>> list(const std::string& dir) = 0;
  virtual Result<std::uint64_t> file_size(const std::string& path) = 0;
  [[nodiscard]] virtual bool exists(const std::string& path) = 0;
  /// Zeros the range, up to the end of the file, and frees the space of all whole file-system blocks in it. Other bytes in the
  /// same blocks stay unchanged, even after a power loss. Returns kUnsupported if the file system cannot do this.
  virtual Status punch_hole(const std::string& path, std::uint64_t offset, std::uint64_t length) = 0;
  /// Returns the number of bytes that the file occupies on disk.
  virtual Result<std::uint64_t> allocated_bytes(const std::string& path) = 0;
  /// Returns the number of names (hard links) of the file. If there is more than one, a checkpoint may share the file, so its
  /// bytes must not change, not even by holes.
  virtual Result<std::uint64_t> link_count(const std::string& path) = 0;
  virtual Result<DiskSpace> disk_space(const std::string& dir) = 0;
  /// Creates a file of `bytes` bytes that occupies as many bytes on disk, which unlink() will free. Syncs the file, but not its
  /// name. The content has no meaning. Returns kExists if the name is in use; after any other error the file is removed if
  /// possible. May take as long as writing the bytes.
  virtual Status allocate(const std::string& path, std::uint64_t bytes);
  /// Locks the file until the result is destroyed or the process ends. Returns kBusy, with the path, if another process or
  /// FileLock holds the lock. While a database's file LOCK is locked, paths in its directory lead to the locked directory, even
  /// if the directory was moved and another directory now has its name.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
};

/// Returns the real file system, which is never destroyed.
FileSystem* posix_file_system();

/// The default size limit of read_file(), far above any file that is read whole: the metadata of the largest tables has a few
/// dozen MiB.
inline constexpr std::uint64_t kMaxWholeFileBytes = std::uint64_t{1} << 30;
/// Reads a whole file. If it has more than `max_bytes`, returns kCorruption before any memory is allocated.
Result<std::string> read_file(FileSystem& fs, const std::string& path, std::uint64_t max_bytes = kMaxWholeFileBytes);
/// Copies `length` bytes of a file, from `offset` on, to a new file. Syncs the new file, but not its name. Returns kExists as
/// create() does, and kCorruption if the source is too short. After any other error the new file is removed if possible.
Status copy_file(FileSystem& fs, const std::string& from, const std::string& to, std::uint64_t length, std::uint64_t offset = 0);
/// Writes dir/name.tmp, syncs it, renames it to dir/name and syncs the directory. After a crash the file has the old or the new
/// content, never a mix.
Status write_file_atomically(FileSystem& fs, const std::string& dir, const std::string& name, Bytes content);

}  // namespace ebbtide
