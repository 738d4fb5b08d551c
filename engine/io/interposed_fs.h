// A file system that passes each call to another one and lets a subclass act before and after it: fault_fs and trace_fs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/file_system.h"

namespace ebbtide {

/// The kind of a call. allocate() counts as one kCreate, and sync_file() as kSync, like a file's sync(). file_size(),
/// allocated_bytes(), link_count() and FileLock::check_directory() (with the path of the locked file) count as kStat.
enum class FileOp : std::uint8_t {
  kCreate,
  kWrite,
  kSync,
  kClose,
  kRename,
  kUnlink,
  kLink,
  kTruncate,
  kPunchHole,
  kSyncDir,
  kCreateDir,
  kRemoveDir,
  kLock,
  kOpen,
  kRead,
  kList,
  kStat,
  kWriteBack,
};

/// Returns the name of an operation, such as "create", "write" or "sync_dir".
const char* file_op_name(FileOp op);

/// A set of kinds of calls.
using FileOps = std::uint32_t;
constexpr FileOps ops_of(FileOp op) { return FileOps{1} << static_cast<unsigned>(op); }
template <typename... Rest>
constexpr FileOps ops_of(FileOp op, Rest... rest) {
  return ops_of(op) | ops_of(rest...);
}
inline constexpr FileOps kReadOps = ops_of(FileOp::kOpen, FileOp::kRead, FileOp::kList, FileOp::kStat);
/// The calls that change something on disk; closing and locking do not.
inline constexpr FileOps kMutatingOps =
    ops_of(FileOp::kCreate, FileOp::kWrite, FileOp::kSync, FileOp::kRename, FileOp::kUnlink, FileOp::kLink, FileOp::kTruncate,
           FileOp::kPunchHole, FileOp::kSyncDir, FileOp::kCreateDir, FileOp::kRemoveDir);
inline constexpr FileOps kAllOps = kReadOps | kMutatingOps | ops_of(FileOp::kClose, FileOp::kLock, FileOp::kWriteBack);

struct FileCall {
  FileOp op = FileOp::kRead;
  std::string path{};
  std::string to{};          ///< the new name of a rename or link
  std::uint64_t offset = 0;  ///< offset of a read or punch_hole; the new size of a truncate
  std::uint64_t length = 0;  ///< length of a read, write or punch_hole
  std::uint64_t handle = 0;  ///< identifies an open file; 0 for calls that name a path
};

/// Thread-safe if around() is thread-safe. exists() and disk_space() go to the base file system without around().
class InterposedFileSystem : public FileSystem {
 public:
  /// `base` must outlive this object and the files opened through it. This object must outlive those files, too.
  explicit InterposedFileSystem(FileSystem& base) : base_(base) {}

  Result<std::unique_ptr<WritableFile>> create(const std::string& path, const OpenOptions& options = {}) final;
  Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path, const OpenOptions& options = {}) override;
  Status rename(const std::string& from, const std::string& to) final;
  Status unlink(const std::string& path) final;
  Status link(const std::string& from, const std::string& to) final;
  Status truncate(const std::string& path, std::uint64_t size) final;
  Status sync_file(const std::string& path) final;
  Status sync_dir(const std::string& dir) final;
  Status create_dir(const std::string& dir) final;
  Status remove_dir(const std::string& dir) final;
  Result<std::vector<std::string>> list(const std::string& dir) final;
  Result<std::uint64_t> file_size(const std::string& path) final;
  [[nodiscard]] bool exists(const std::string& path) final;
  Status punch_hole(const std::string& path, std::uint64_t offset, std::uint64_t length) final;
  Result<std::uint64_t> allocated_bytes(const std::string& path) final;
  Result<std::uint64_t> link_count(const std::string& path) final;
  Result<DiskSpace> disk_space(const std::string& dir) final;
  Status allocate(const std::string& path, std::uint64_t bytes) final;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) final;

 protected:
  /// Makes the call on the base file system. A write writes only the first `length` bytes; other calls ignore `length`.
  using Run = std::function<Status(std::uint64_t length)>;
  /// Wraps each call of the file system: a subclass adds its own work before and after run(). around() must not return ok unless
  /// it has called run(), and run() has returned ok.
  virtual Status around(const FileCall& call, const Run& run) = 0;

 private:
  class Writer;
  class Reader;
  class Lock;
  template <typename T, typename Call>
  Result<T> answer(const FileCall& call, Call below);

  FileSystem& base_;
  std::atomic<std::uint64_t> last_handle_{0};
};

}  // namespace ebbtide
