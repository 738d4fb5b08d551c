// The real file system: Linux system calls, with no state but file descriptors.
//
// A database's directory is held open while it is locked, and every path in it is resolved from that descriptor (by openat and
// similar calls). So if the directory is moved away and another directory gets its name, no call reaches the other directory. A
// check of the name before each call would not suffice, since the directory could be moved between the check and the call.
//
// Rules:
// 1. Every descriptor is close-on-exec. Files have mode 0600, directories 0700; the umask may remove more.
// 2. A failed sync is reported once and never retried: a second sync would return ok, since the kernel has marked the pages
//    clean.
// 3. fdatasync makes data and size durable; it omits only the file's times. Names need sync_dir.
// 4. Error messages have the form "<operation> <path>: <reason>".
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "io/errno_status.h"
#include "io/file_names.h"
#include "io/file_system.h"
#include "io/uring_queue.h"
#include "io/vectors.h"

namespace ebbtide {

namespace {

/// Owns a descriptor.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// A directory that is held open, and the name by which it was opened, without a slash at the end.
struct HeldDirectory {
  std::string name;
  Fd fd;
};

/// A resolved path: `name` is relative to the directory `at`. Valid as long as the string `path`.
struct Place {
  const std::string& path;  ///< for messages
  std::shared_ptr<const HeldDirectory> held;
  int at = AT_FDCWD;
  const char* name = nullptr;
};

/// The directories that are held open under a name. Thread-safe.
class HeldDirectories {
 public:
  void add(std::shared_ptr<const HeldDirectory> directory) {
    MutexLock lock(mutex_);
    all_.push_back(std::move(directory));
  }
  void remove(const std::shared_ptr<const HeldDirectory>& directory) {
    MutexLock lock(mutex_);
    std::erase(all_, directory);
  }
  /// Resolves a path. If it lies in one of the held directories, the result is relative to that directory's descriptor;
  /// otherwise it is relative to the working directory.
  [[nodiscard]] Place place_of(const std::string& path) const {
    MutexLock lock(mutex_);
    for (const auto& directory : all_) {
      const std::size_t length = directory->name.size();
      if (!path.starts_with(directory->name) || (path.size() > length && path[length] != '/')) continue;
      const char* name = path.c_str() + length;
      while (*name == '/') ++name;
      if (Bytes(name).starts_with("..")) continue;  // the path leads out of the directory
      return {path, directory, directory->fd.get(), *name == '\0' ? "." : name};
    }
    return {path, nullptr, AT_FDCWD, path.c_str()};
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<const HeldDirectory>> all_ GUARDED_BY(mutex_);
};

/// Opens a file; tries again after EINTR. Returns the descriptor, or -1 with errno set.
int open_retrying(const Place& place, int flags, mode_t mode = 0) {
  int fd;
  do {
    fd = ::openat(place.at, place.name, flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

Result<Fd> open_fd(Bytes operation, const Place& place, int flags, mode_t mode = 0) {
  const int fd = open_retrying(place, flags, mode);
  if (fd < 0) return errno_status(operation, place.path, errno);
  return Fd(fd);
}

/// Opens a file for reading. Returns kCorruption if the path is not a file, but a loop of links or a socket, for example.
Result<Fd> open_to_read(const Place& place, int flags = 0) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const int fd = open_retrying(place, O_RDONLY | O_NONBLOCK | flags);
  if (fd >= 0) return Fd(fd);
  const int error = errno;
  Status status = errno_status("open", place.path, error);
  const bool no_file = error == ELOOP || error == ENOTDIR || error == ENXIO || error == ENODEV;
  return no_file ? Status::corruption(std::string(status.message())) : status;
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Status append(std::span<const Bytes> pieces) override {
    iovec vectors[kVectors];
    std::size_t next = 0;
    while (next < pieces.size()) {
      std::size_t count = 0;
      for (; next < pieces.size() && count < kVectors; ++next) {
        if (pieces[next].empty()) continue;
        vectors[count++] = {const_cast<char*>(pieces[next].data()), pieces[next].size()};
      }
      TRY(write_all(std::span(vectors, count)));
    }
    return Status::ok();
  }

  Status sync() override {
    if (::fdatasync(fd_.get()) != 0) return errno_status("sync", path_, errno);
    return Status::ok();
  }

  // Only whole pages are written, since later appends change the last page again. Only write errors are returned: if the file
  // system or a filter of system calls does not support sync_file_range, sync() writes all the data.
  Status write_back() override {
    const auto range = [this](std::uint64_t from, std::uint64_t to, unsigned flags) {
      if (from == to) return Status::ok();
      const int result = ::sync_file_range(fd_.get(), static_cast<off_t>(from), static_cast<off_t>(to - from), flags);
      if (result == 0 || (errno != EIO && errno != ENOSPC && errno != EDQUOT)) return Status::ok();
      return errno_status("write back", path_, errno);
    };
    const std::uint64_t end = size() / kPageBytes * kPageBytes;
    TRY(range(settled_, started_, SYNC_FILE_RANGE_WAIT_BEFORE));
    settled_ = started_;
    TRY(range(started_, end, SYNC_FILE_RANGE_WRITE));
    started_ = end;
    return Status::ok();
  }

  Status close() override {
    const int fd = fd_.release();
    // On Linux close() releases the descriptor even if it returns an error; EINTR does not mean that writing has failed.
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) return errno_status("close", path_, errno);
    return Status::ok();
  }

  [[nodiscard]] std::uint64_t size() const override { return size_.load(std::memory_order_acquire); }

 private:
  static constexpr std::size_t kVectors = std::min(IOV_MAX, 256);
  static constexpr std::uint64_t kPageBytes = 4096;

  /// Writes all bytes in several calls if needed: the kernel may write fewer bytes at 2 GiB, on a full disk, or after a signal.
  Status write_all(std::span<iovec> vectors) {
    while (!vectors.empty()) {
      const ssize_t written = ::writev(fd_.get(), vectors.data(), static_cast<int>(vectors.size()));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno_status("write", path_, errno);
      if (written == 0) return Status::io_error("write " + path_ + ": nothing was written");
      size_.fetch_add(static_cast<std::uint64_t>(written), std::memory_order_release);
      drop_written(&vectors, static_cast<std::size_t>(written));
    }
    return Status::ok();
  }

  Fd fd_;
  const std::string path_;
  std::atomic<std::uint64_t> size_{0};
  // For write_back(): the offset up to which writing to the device has ended, and the offset up to which it has started.
  std::uint64_t settled_ = 0, started_ = 0;
};

/// Calls pread until `length` bytes were read, or the file ends. Returns the number of bytes read.
Result<std::size_t> read_up_to(int fd, Bytes path, std::uint64_t offset, std::size_t length, char* buffer) {
  std::size_t done = 0;
  while (done < length) {
    const ssize_t got = ::pread(fd, buffer + done, length - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_status("read", path, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

/// Facts about a file that was just opened.
struct FileInfo {
  std::uint64_t size = 0;
  FileIdentity identity;
  std::uint64_t last_write = 0;
};

/// Implements next_data(). Returns `offset` if the file system does not report holes. lseek moves the descriptor's position,
/// which has no other use.
std::uint64_t end_of_hole(int fd, std::uint64_t offset, std::uint64_t size) {
  if (offset >= size) return offset;
  const off_t data = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  if (data < 0) return errno == ENXIO ? size : offset;
  return std::clamp(static_cast<std::uint64_t>(data), offset, size);
}

class PosixRandomAccessFile final : public RandomAccessFile {
 public:
  PosixRandomAccessFile(Fd fd, std::string path, const FileInfo& info)
      : fd_(std::move(fd)), path_(std::move(path)), info_(info) {}

  Status read(std::uint64_t offset, std::size_t length, char* buffer) const override {
    TRY_ASSIGN(done, read_up_to(fd_.get(), path_, offset, length, buffer));
    if (done < length) return ends_early(path_, offset, length, offset + done);
    return Status::ok();
  }

  Result<bool> read_if_cached(std::uint64_t offset, std::size_t length, char* buffer) const override {
    if (length == 0) return true;
    const iovec vector{buffer, length};
    const ssize_t got = ::preadv2(fd_.get(), &vector, 1, static_cast<off_t>(offset), RWF_NOWAIT);
    if (got == static_cast<ssize_t>(length)) return true;
    // The bytes are not cached, or the kernel or file system does not support the call. The caller then uses an ordinary read,
    // which also reports real errors.
    if (got != 0) return false;
    return ends_early(path_, offset, length, std::min(offset, info_.size));
  }

  [[nodiscard]] std::uint64_t size() const override { return info_.size; }
  [[nodiscard]] FileIdentity identity() const override { return info_.identity; }
  [[nodiscard]] std::uint64_t last_write() const override { return info_.last_write; }
  [[nodiscard]] std::uint64_t next_data(std::uint64_t offset) const override {
    return end_of_hole(fd_.get(), offset, info_.size);
  }
  [[nodiscard]] NativeFile native() const override { return {.descriptor = fd_.get(), .alignment = 1}; }

 private:
  const Fd fd_;
  const std::string path_;
  const FileInfo info_;
};

/// Reads that bypass the system page cache. Devices with blocks of up to 4 KiB require aligned offsets, lengths and memory.
class DirectRandomAccessFile final : public RandomAccessFile {
 public:
  DirectRandomAccessFile(Fd fd, std::string path, const FileInfo& info)
      : fd_(std::move(fd)), path_(std::move(path)), info_(info) {}

  Status read(std::uint64_t offset, std::size_t length, char* buffer) const override {
    if (length == 0) return Status::ok();
    const std::uint64_t start = offset / kAlignment * kAlignment;
    const std::size_t skip = static_cast<std::size_t>(offset - start);
    const std::size_t span = (skip + length + kAlignment - 1) / kAlignment * kAlignment;
    const bool aligned = span == length && reinterpret_cast<std::uintptr_t>(buffer) % kAlignment == 0;
    std::unique_ptr<char, decltype(&std::free)> bounce(nullptr, &std::free);
    if (!aligned) bounce.reset(static_cast<char*>(std::aligned_alloc(kAlignment, span)));
    if (!aligned && bounce == nullptr) return Status::out_of_memory("read " + path_ + ": no buffer of " + std::to_string(span));
    TRY_ASSIGN(done, read_span(start, span, aligned ? buffer : bounce.get()));
    if (done < skip + length) return ends_early(path_, offset, length, start + done);
    if (!aligned) std::memcpy(buffer, bounce.get() + skip, length);
    return Status::ok();
  }

  Result<bool> read_if_cached(std::uint64_t, std::size_t length, char*) const override { return length == 0; }
  [[nodiscard]] std::uint64_t size() const override { return info_.size; }
  [[nodiscard]] FileIdentity identity() const override { return info_.identity; }
  [[nodiscard]] std::uint64_t last_write() const override { return info_.last_write; }
  [[nodiscard]] std::uint64_t next_data(std::uint64_t offset) const override {
    return end_of_hole(fd_.get(), offset, info_.size);
  }
  [[nodiscard]] NativeFile native() const override { return {.descriptor = fd_.get(), .alignment = kAlignment}; }

 private:
  static constexpr std::size_t kAlignment = 4096;

  /// Like read_up_to(), but continues only from aligned offsets: a read that ends elsewhere has reached the end of the file.
  Result<std::size_t> read_span(std::uint64_t start, std::size_t span, char* buffer) const {
    std::size_t done = 0;
    while (done < span) {
      const ssize_t got = ::pread(fd_.get(), buffer + done, span - done, static_cast<off_t>(start + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return errno_status("read", path_, errno);
      done += static_cast<std::size_t>(got);
      if (got == 0 || done % kAlignment != 0) break;
    }
    return done;
  }

  const Fd fd_;
  const std::string path_;
  const FileInfo info_;
};

class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(Fd fd) : fd_(std::move(fd)) {}

 private:
  const Fd fd_;  // closing the descriptor releases the lock
};

/// The lock of a database: its file LOCK and its directory, which is held open under its name.
class DatabaseLock final : public FileLock {
 public:
  /// `exclusive`: the directory is locked, too, which some file systems do not support.
  DatabaseLock(Fd fd, std::shared_ptr<const HeldDirectory> directory, bool exclusive, HeldDirectories& all)
      : fd_(std::move(fd)), directory_(std::move(directory)), exclusive_(exclusive), all_(all) {
    all_.add(directory_);
  }
  ~DatabaseLock() override { all_.remove(directory_); }

  // Compares the inode of the locked directory with the inode to which its name leads. Reads both numbers now: some file systems
  // give a directory another inode number when it changes, so the number from the time of the lock may be out of date.
  [[nodiscard]] Status check_directory() const override {
    const std::string& name = directory_->name;
    if (taken_) {
      return Status::io_error(path() +
                              " was removed or replaced while the database used it. Another process has locked it, and may use " +
                              "the same directory: stop that process, then the server accepts writes again");
    }
    struct stat held {};
    struct stat named {};
    if (::fstat(directory_->fd.get(), &held) != 0) return Status::ok();  // the device fails: this shows no other directory
    if (held.st_nlink == 0) {
      return Status::io_error(name + " was removed while the database used it; stop the server, restore a backup to this path, " +
                              "and start the server");
    }
    const bool leads = ::stat(name.c_str(), &named) == 0;
    if (leads ? held.st_dev == named.st_dev && held.st_ino == named.st_ino : errno != ENOENT && errno != ENOTDIR) {
      return Status::ok();
    }
    return Status::io_error(name + " was moved away or replaced while the database used it" + whereabouts() +
                            "; move it back, and the server accepts writes again");
  }

  // If another process has locked the new file LOCK, two cases differ. While this process has locked the directory, the other
  // process cannot have the database open, and does no harm. If the file system does not lock directories, the other process may
  // have the database open, and this process must not write (docs/decisions/0052).
  Result<std::string> renew() override {
    if (is_locked_file()) {
      taken_ = false;
      return std::string();
    }
    struct stat named {};
    const bool missing = ::fstatat(directory_->fd.get(), name_of_file(), &named, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
    const std::string file = path();
    Fd fresh(open_retrying({file, nullptr, directory_->fd.get(), name_of_file()},
                           O_RDWR | O_NOFOLLOW | O_NONBLOCK | (missing ? O_CREAT | O_EXCL : 0), 0600));
    if (fresh.get() < 0) {
      const Status status = errno_status("lock", file, errno);
      return missing || S_ISREG(named.st_mode)
                 ? status
                 : Status::io_error(std::string(status.message()) + "; remove it: LOCK was replaced");
    }
    if (::flock(fresh.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return errno_status("lock", file, errno);
      taken_ = !exclusive_;
      if (taken_) return check_directory();
      return Status::busy(file + " was removed or replaced while the database used it, and another process has locked it; no " +
                          "other server can open the database, since its directory is locked, too");
    }
    taken_ = false;
    fd_ = std::move(fresh);
    return file + (missing ? " was removed" : " was replaced") + " while the database used it; " +
           (missing ? "a new file was created and locked" : "the new file is locked now");
  }

 private:
  [[nodiscard]] std::string path() const { return directory_->name + "/" + name_of_file(); }
  static const char* name_of_file() { return kLockFileName.data(); }

  /// Returns true if the name LOCK leads to the file that is locked. An error of the device counts as true.
  [[nodiscard]] bool is_locked_file() const {
    struct stat held {};
    struct stat named {};
    if (::fstat(fd_.get(), &held) != 0) return true;
    if (::fstatat(directory_->fd.get(), name_of_file(), &named, AT_SYMLINK_NOFOLLOW) != 0) return errno != ENOENT;
    return held.st_dev == named.st_dev && held.st_ino == named.st_ino;
  }

  /// Returns ": it is now PATH", with the present path of the locked directory. Returns "" if that path is unknown, or is
  /// unchanged because another file system was mounted over it.
  [[nodiscard]] std::string whereabouts() const {
    char path[PATH_MAX];
    const std::string link = "/proc/self/fd/" + std::to_string(directory_->fd.get());
    const ssize_t length = ::readlink(link.c_str(), path, sizeof(path));
    const Bytes found(path, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    std::error_code error;
    const bool unchanged = std::filesystem::absolute(directory_->name, error) == found;
    return found.empty() || unchanged ? "" : ": it is now " + std::string(found);
  }

  Fd fd_;  // closing this descriptor and the directory's descriptor releases the locks
  const std::shared_ptr<const HeldDirectory> directory_;
  const bool exclusive_;
  HeldDirectories& all_;
  std::atomic<bool> taken_{false};  // true if another process has locked the new file LOCK and may use the directory
};

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<WritableFile>> create(const std::string& path, const OpenOptions&) override {
    TRY_ASSIGN(fd, open_fd("create", held_.place_of(path), O_WRONLY | O_CREAT | O_EXCL, 0600));
    return std::unique_ptr<WritableFile>(new PosixWritableFile(std::move(fd), path));
  }

  Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path, const OpenOptions& options) override {
    const Place place = held_.place_of(path);
    if (options.direct) {
      auto direct = open_to_read(place, O_DIRECT);
      if (direct.is_ok()) {
        TRY_ASSIGN(info, describe("open", path, direct->get()));
        return std::unique_ptr<RandomAccessFile>(new DirectRandomAccessFile(std::move(direct).value(), path, info));
      }
      if (direct.status().is_not_found()) return direct.status();
      // Some file systems do not support O_DIRECT; buffered reads return the same bytes.
    }
    TRY_ASSIGN(fd, open_to_read(place));
    TRY_ASSIGN(info, describe("open", path, fd.get()));
    return std::unique_ptr<RandomAccessFile>(new PosixRandomAccessFile(std::move(fd), path, info));
  }

  std::unique_ptr<ReadQueue> new_read_queue() override { return new_uring_queue(); }

  Status rename(const std::string& from, const std::string& to) override {
    const Place source = held_.place_of(from), target = held_.place_of(to);
    if (::renameat(source.at, source.name, target.at, target.name) != 0) {
      return errno_status("rename", from + " to " + to, errno);
    }
    return Status::ok();
  }

  Status unlink(const std::string& path) override {
    const Place place = held_.place_of(path);
    if (::unlinkat(place.at, place.name, 0) != 0) return errno_status("unlink", path, errno);
    return Status::ok();
  }

  Status link(const std::string& from, const std::string& to) override {
    const Place source = held_.place_of(from), target = held_.place_of(to);
    if (::linkat(source.at, source.name, target.at, target.name, 0) != 0) {
      return errno_status("link", from + " to " + to, errno);
    }
    return Status::ok();
  }

  Status truncate(const std::string& path, std::uint64_t size) override {
    TRY_ASSIGN(fd, open_fd("truncate", held_.place_of(path), O_WRONLY | O_NONBLOCK));
    if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return errno_status("truncate", path, errno);
    return Status::ok();
  }

  Status sync_file(const std::string& path) override {
    TRY_ASSIGN(fd, open_fd("sync", held_.place_of(path), O_RDWR));
    if (::fdatasync(fd.get()) != 0) return errno_status("sync", path, errno);
    return Status::ok();
  }

  Status sync_dir(const std::string& dir) override {
    const std::string name = dir.empty() ? "." : dir;
    TRY_ASSIGN(fd, open_fd("sync directory", held_.place_of(name), O_RDONLY | O_DIRECTORY));
    if (::fsync(fd.get()) != 0) return errno_status("sync directory", name, errno);
    return Status::ok();
  }

  Status create_dir(const std::string& dir) override {
    const Place place = held_.place_of(dir);
    if (::mkdirat(place.at, place.name, 0700) == 0) return Status::ok();
    const int error = errno;
    struct stat info {};
    if (error == EEXIST && ::fstatat(place.at, place.name, &info, 0) == 0 && S_ISDIR(info.st_mode)) return Status::ok();
    if (error == ENOENT) return Status::not_found("create directory " + dir + ": its parent directory does not exist");
    return errno_status("create directory", dir, error);
  }

  Status remove_dir(const std::string& dir) override {
    const Place place = held_.place_of(dir);
    if (::unlinkat(place.at, place.name, AT_REMOVEDIR) != 0) return errno_status("remove directory", dir, errno);
    return Status::ok();
  }

  Result<std::vector<std::string>> list(const std::string& dir) override {
    const std::string path = dir.empty() ? "." : dir;
    TRY_ASSIGN(fd, open_fd("list", held_.place_of(path), O_RDONLY | O_DIRECTORY));
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), &::closedir);
    if (stream == nullptr) return errno_status("list", dir, errno);
    fd.release();  // closedir() closes the descriptor
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(stream.get());
      if (entry == nullptr && errno != 0) return errno_status("list", dir, errno);
      if (entry == nullptr) return names;
      const Bytes name(entry->d_name);
      if (name != "." && name != "..") names.emplace_back(name);
    }
  }

  Result<std::uint64_t> file_size(const std::string& path) override {
    TRY_ASSIGN(info, stat_of(path));
    return static_cast<std::uint64_t>(info.st_size);
  }

  [[nodiscard]] bool exists(const std::string& path) override {
    const Place place = held_.place_of(path);
    return ::faccessat(place.at, place.name, F_OK, 0) == 0;
  }

  Status punch_hole(const std::string& path, std::uint64_t offset, std::uint64_t length) override {
    if (length == 0) return Status::ok();
    TRY_ASSIGN(fd, open_fd("punch", held_.place_of(path), O_RDWR));
    int result;
    do {
      result = ::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                           static_cast<off_t>(length));
    } while (result != 0 && errno == EINTR);
    if (result != 0) return errno_status("punch", path, errno);
    return Status::ok();
  }

  Result<std::uint64_t> allocated_bytes(const std::string& path) override {
    TRY_ASSIGN(info, stat_of(path));
    return static_cast<std::uint64_t>(info.st_blocks) * 512;  // POSIX: st_blocks is in units of 512 bytes, whatever st_blksize is
  }

  Result<std::uint64_t> link_count(const std::string& path) override {
    TRY_ASSIGN(info, stat_of(path));
    return static_cast<std::uint64_t>(info.st_nlink);
  }

  Result<DiskSpace> disk_space(const std::string& dir) override {
    const std::string path = dir.empty() ? "." : dir;
    const Place place = held_.place_of(path);
    struct statvfs info {};
    const int result = place.held != nullptr ? ::fstatvfs(place.at, &info) : ::statvfs(path.c_str(), &info);
    if (result != 0) return errno_status("disk space of", dir, errno);
    return DiskSpace{.total_bytes = info.f_blocks * info.f_frsize, .free_bytes = info.f_bavail * info.f_frsize};
  }

  Status allocate(const std::string& path, std::uint64_t bytes) override {
    Status status = allocate_blocks(path, bytes);
    if (status.is_ok() || status.code() == Code::kExists) return status;
    (void)unlink(path);
    return status.code() == Code::kUnsupported ? FileSystem::allocate(path, bytes) : status;
  }

  /// A lock by flock belongs to the open file, not to the process, so a second lock() in this process fails, too. Locking a
  /// database's file LOCK also locks its directory. Otherwise a second server could start after an administrator removed the
  /// file LOCK.
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    if (Bytes(path).substr(path.rfind('/') + 1) != kLockFileName) {
      TRY_ASSIGN(fd, open_fd("lock", held_.place_of(path), O_RDWR | O_CREAT, 0600));
      TRY(lock_now(path, fd));
      return std::unique_ptr<FileLock>(new PosixFileLock(std::move(fd)));
    }
    const std::string dir = parent_path(path);
    Fd of_dir(open_retrying(held_.place_of(dir), O_RDONLY | O_DIRECTORY));
    if (of_dir.get() < 0) return errno_status("lock", path, errno);
    const Place place{path, nullptr, of_dir.get(), path.c_str() + path.size() - kLockFileName.size()};
    auto opened = open_fd("lock", place, O_RDWR | O_CREAT, 0600);
    if (!opened.is_ok()) {
      struct stat info {};
      const bool no_file = ::fstatat(place.at, place.name, &info, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(info.st_mode);
      return no_file ? Status::io_error(std::string(opened.status().message()) + "; remove it: this file has no content")
                     : opened.status();
    }
    TRY(lock_now(path, *opened));
    const Status status = lock_now(dir, of_dir);
    if (status.code() == Code::kBusy) return status.with_context(path + " was removed while it was locked");
    // Some file systems do not lock directories; then only the file is locked.
    const std::shared_ptr<const HeldDirectory> directory(new HeldDirectory{dir, std::move(of_dir)});
    return std::unique_ptr<FileLock>(new DatabaseLock(std::move(opened).value(), directory, status.is_ok(), held_));
  }

 private:
  static Status lock_now(const std::string& path, const Fd& fd) {
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return Status::ok();
    if (errno == EWOULDBLOCK) return Status::busy("lock " + path + ": held by another process, or open twice in this one");
    return errno_status("lock", path, errno);
  }

  Status allocate_blocks(const std::string& path, std::uint64_t bytes) {
    TRY_ASSIGN(fd, open_fd("allocate", held_.place_of(path), O_WRONLY | O_CREAT | O_EXCL, 0600));
    int result = 0;
    do {
      result = bytes == 0 ? 0 : ::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes));
    } while (result != 0 && errno == EINTR);
    if (result != 0) return errno_status("allocate", path, errno);
    if (::fsync(fd.get()) != 0) return errno_status("sync", path, errno);
    return Status::ok();
  }

  [[nodiscard]] Result<struct stat> stat_of(const std::string& path) const {
    const Place place = held_.place_of(path);
    struct stat info {};
    if (::fstatat(place.at, place.name, &info, 0) != 0) return errno_status("stat", path, errno);
    return info;
  }

  static Result<FileInfo> describe(Bytes operation, const std::string& path, int fd) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) return errno_status(operation, path, errno);
    // A directory or a device instead of a file is damage (kCorruption), not a failure of the device that a retry may cure.
    if (!S_ISREG(info.st_mode)) {
      return Status::corruption(std::string(operation) + " " + path +
                                (S_ISDIR(info.st_mode) ? ": a directory" : ": not a regular file"));
    }
    constexpr std::uint64_t kNanos = 1'000'000'000;
    return FileInfo{.size = static_cast<std::uint64_t>(info.st_size),
                    .identity = {info.st_dev, info.st_ino},
                    .last_write = static_cast<std::uint64_t>(info.st_mtim.tv_sec) * kNanos +
                                  static_cast<std::uint64_t>(info.st_mtim.tv_nsec)};
  }

  HeldDirectories held_;
};

}  // namespace

FileSystem* posix_file_system() {
  static auto* const file_system = new PosixFileSystem;
  return file_system;
}

}  // namespace ebbtide
