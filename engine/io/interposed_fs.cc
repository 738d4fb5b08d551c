#include "io/interposed_fs.h"

#include <optional>

namespace ebbtide {

const char* file_op_name(FileOp op) {
  switch (op) {
    case FileOp::kCreate:
      return "create";
    case FileOp::kWrite:
      return "write";
    case FileOp::kSync:
      return "sync";
    case FileOp::kClose:
      return "close";
    case FileOp::kRename:
      return "rename";
    case FileOp::kUnlink:
      return "unlink";
    case FileOp::kLink:
      return "link";
    case FileOp::kTruncate:
      return "truncate";
    case FileOp::kPunchHole:
      return "punch_hole";
    case FileOp::kSyncDir:
      return "sync_dir";
    case FileOp::kCreateDir:
      return "create_dir";
    case FileOp::kRemoveDir:
      return "remove_dir";
    case FileOp::kLock:
      return "lock";
    case FileOp::kOpen:
      return "open";
    case FileOp::kRead:
      return "read";
    case FileOp::kList:
      return "list";
    case FileOp::kStat:
      return "stat";
    case FileOp::kWriteBack:
      return "write_back";
  }
  return "?";
}

class InterposedFileSystem::Writer final : public WritableFile {
 public:
  Writer(InterposedFileSystem& owner, std::unique_ptr<WritableFile> below, std::string path, std::uint64_t handle)
      : owner_(owner), below_(std::move(below)), path_(std::move(path)), handle_(handle) {}

  Status append(std::span<const Bytes> pieces) override {
    std::uint64_t total = 0;
    for (const Bytes piece : pieces) total += piece.size();
    return owner_.around({.op = FileOp::kWrite, .path = path_, .length = total, .handle = handle_}, [&](std::uint64_t length) {
      if (length >= total) return below_->append(pieces);
      std::vector<Bytes> first;
      for (const Bytes piece : pieces) {
        first.push_back(piece.substr(0, length));
        length -= first.back().size();
      }
      return below_->append(first);
    });
  }
  Status sync() override {
    return owner_.around({.op = FileOp::kSync, .path = path_, .handle = handle_}, [&](std::uint64_t) { return below_->sync(); });
  }
  Status write_back() override {
    return owner_.around({.op = FileOp::kWriteBack, .path = path_, .handle = handle_},
                         [&](std::uint64_t) { return below_->write_back(); });
  }
  Status close() override {
    return owner_.around({.op = FileOp::kClose, .path = path_, .handle = handle_},
                         [&](std::uint64_t) { return below_->close(); });
  }
  [[nodiscard]] std::uint64_t size() const override { return below_->size(); }

 private:
  InterposedFileSystem& owner_;
  const std::unique_ptr<WritableFile> below_;
  const std::string path_;
  const std::uint64_t handle_;
};

class InterposedFileSystem::Reader final : public RandomAccessFile {
 public:
  Reader(InterposedFileSystem& owner, std::unique_ptr<RandomAccessFile> below, std::string path, std::uint64_t handle)
      : owner_(owner), below_(std::move(below)), path_(std::move(path)), handle_(handle) {}

  Status read(std::uint64_t offset, std::size_t length, char* buffer) const override {
    return owner_.around(call(offset, length), [&](std::uint64_t) { return below_->read(offset, length, buffer); });
  }
  Result<bool> read_if_cached(std::uint64_t offset, std::size_t length, char* buffer) const override {
    return owner_.answer<bool>(call(offset, length), [&] { return below_->read_if_cached(offset, length, buffer); });
  }
  [[nodiscard]] std::uint64_t size() const override { return below_->size(); }
  [[nodiscard]] FileIdentity identity() const override { return below_->identity(); }
  [[nodiscard]] std::uint64_t last_write() const override { return below_->last_write(); }
  [[nodiscard]] std::uint64_t next_data(std::uint64_t offset) const override { return below_->next_data(offset); }

 private:
  [[nodiscard]] FileCall call(std::uint64_t offset, std::size_t length) const {
    return {.op = FileOp::kRead, .path = path_, .offset = offset, .length = length, .handle = handle_};
  }

  InterposedFileSystem& owner_;
  const std::unique_ptr<RandomAccessFile> below_;
  const std::string path_;
  const std::uint64_t handle_;
};

class InterposedFileSystem::Lock final : public FileLock {
 public:
  Lock(InterposedFileSystem& owner, std::unique_ptr<FileLock> below, std::string path)
      : owner_(owner), below_(std::move(below)), path_(std::move(path)) {}

  [[nodiscard]] Status check_directory() const override {
    return owner_.around({.op = FileOp::kStat, .path = path_}, [&](std::uint64_t) { return below_->check_directory(); });
  }
  Result<std::string> renew() override { return below_->renew(); }

 private:
  InterposedFileSystem& owner_;
  const std::unique_ptr<FileLock> below_;
  const std::string path_;
};

/// Makes a call that returns a value, inside around(). Returns the value, or the error of around().
template <typename T, typename Call>
Result<T> InterposedFileSystem::answer(const FileCall& call, Call below) {
  std::optional<Result<T>> result;
  const Status status = around(call, [&](std::uint64_t) {
    result.emplace(below());
    return result->status();
  });
  if (!status.is_ok()) return status;
  return std::move(*result);
}

Result<std::unique_ptr<WritableFile>> InterposedFileSystem::create(const std::string& path, const OpenOptions& options) {
  const std::uint64_t handle = ++last_handle_;
  TRY_ASSIGN(below, answer<std::unique_ptr<WritableFile>>({.op = FileOp::kCreate, .path = path, .handle = handle},
                                                          [&] { return base_.create(path, options); }));
  return std::unique_ptr<WritableFile>(new Writer(*this, std::move(below), path, handle));
}

Result<std::unique_ptr<RandomAccessFile>> InterposedFileSystem::open(const std::string& path, const OpenOptions& options) {
  const std::uint64_t handle = ++last_handle_;
  TRY_ASSIGN(below, answer<std::unique_ptr<RandomAccessFile>>({.op = FileOp::kOpen, .path = path, .handle = handle},
                                                              [&] { return base_.open(path, options); }));
  return std::unique_ptr<RandomAccessFile>(new Reader(*this, std::move(below), path, handle));
}

Status InterposedFileSystem::rename(const std::string& from, const std::string& to) {
  return around({.op = FileOp::kRename, .path = from, .to = to}, [&](std::uint64_t) { return base_.rename(from, to); });
}
Status InterposedFileSystem::unlink(const std::string& path) {
  return around({.op = FileOp::kUnlink, .path = path}, [&](std::uint64_t) { return base_.unlink(path); });
}
Status InterposedFileSystem::link(const std::string& from, const std::string& to) {
  return around({.op = FileOp::kLink, .path = from, .to = to}, [&](std::uint64_t) { return base_.link(from, to); });
}
Status InterposedFileSystem::truncate(const std::string& path, std::uint64_t size) {
  return around({.op = FileOp::kTruncate, .path = path, .offset = size},
                [&](std::uint64_t) { return base_.truncate(path, size); });
}
Status InterposedFileSystem::sync_file(const std::string& path) {
  return around({.op = FileOp::kSync, .path = path}, [&](std::uint64_t) { return base_.sync_file(path); });
}
Status InterposedFileSystem::sync_dir(const std::string& dir) {
  return around({.op = FileOp::kSyncDir, .path = dir}, [&](std::uint64_t) { return base_.sync_dir(dir); });
}
Status InterposedFileSystem::create_dir(const std::string& dir) {
  return around({.op = FileOp::kCreateDir, .path = dir}, [&](std::uint64_t) { return base_.create_dir(dir); });
}
Status InterposedFileSystem::remove_dir(const std::string& dir) {
  return around({.op = FileOp::kRemoveDir, .path = dir}, [&](std::uint64_t) { return base_.remove_dir(dir); });
}
Status InterposedFileSystem::punch_hole(const std::string& path, std::uint64_t offset, std::uint64_t length) {
  return around({.op = FileOp::kPunchHole, .path = path, .offset = offset, .length = length},
                [&](std::uint64_t) { return base_.punch_hole(path, offset, length); });
}
Result<std::vector<std::string>> InterposedFileSystem::list(const std::string& dir) {
  return answer<std::vector<std::string>>({.op = FileOp::kList, .path = dir}, [&] { return base_.list(dir); });
}
Result<std::uint64_t> InterposedFileSystem::file_size(const std::string& path) {
  return answer<std::uint64_t>({.op = FileOp::kStat, .path = path}, [&] { return base_.file_size(path); });
}
Result<std::uint64_t> InterposedFileSystem::allocated_bytes(const std::string& path) {
  return answer<std::uint64_t>({.op = FileOp::kStat, .path = path}, [&] { return base_.allocated_bytes(path); });
}
Result<std::uint64_t> InterposedFileSystem::link_count(const std::string& path) {
  return answer<std::uint64_t>({.op = FileOp::kStat, .path = path}, [&] { return base_.link_count(path); });
}
Status InterposedFileSystem::allocate(const std::string& path, std::uint64_t bytes) {
  return around({.op = FileOp::kCreate, .path = path, .length = bytes},
                [&](std::uint64_t) { return base_.allocate(path, bytes); });
}
Result<std::unique_ptr<FileLock>> InterposedFileSystem::lock(const std::string& path) {
  TRY_ASSIGN(below, answer<std::unique_ptr<FileLock>>({.op = FileOp::kLock, .path = path}, [&] { return base_.lock(path); }));
  return std::unique_ptr<FileLock>(new Lock(*this, std::move(below), path));
}
bool InterposedFileSystem::exists(const std::string& path) { return base_.exists(path); }
Result<DiskSpace> InterposedFileSystem::disk_space(const std::string& dir) { return base_.disk_space(dir); }

}  // namespace ebbtide
