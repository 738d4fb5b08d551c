#include "io/open_files.h"

#include <algorithm>
#include <utility>

namespace ebbtide {

class OpenFiles::File final : public RandomAccessFile {
 public:
  File(std::shared_ptr<OpenFiles> owner, std::string path, const OpenOptions& options,
       std::shared_ptr<const RandomAccessFile> base)
      : owner_(std::move(owner)),
        path_(std::move(path)),
        options_(options),
        size_(base->size()),
        identity_(base->identity()),
        base_(std::move(base)) {
    owner_->files_.fetch_add(1, std::memory_order_relaxed);
  }
  ~File() override {
    owner_->forget(this);
    owner_->files_.fetch_sub(1, std::memory_order_relaxed);
  }

  Status read(std::uint64_t offset, std::size_t length, char* buffer) const override {
    TRY_ASSIGN(base, owner_->acquire(*this));
    return base->read(offset, length, buffer);
  }

  Result<bool> read_if_cached(std::uint64_t offset, std::size_t length, char* buffer) const override {
    // A closed file is not opened again here, since that may wait for the device.
    const auto base = current();
    if (base == nullptr) return length == 0;
    return base->read_if_cached(offset, length, buffer);
  }

  [[nodiscard]] std::uint64_t size() const override { return size_; }
  [[nodiscard]] FileIdentity identity() const override { return identity_; }
  [[nodiscard]] NativeFile native() const override {
    auto base = owner_->acquire(*this);
    if (!base.is_ok()) return {};  // the caller then calls read(), which returns the error
    NativeFile native = base.value()->native();
    native.keeps_open = std::move(base).value();
    return native;
  }

 private:
  friend class OpenFiles;

  /// Returns null if the file is closed. Marks the file as read.
  [[nodiscard]] std::shared_ptr<const RandomAccessFile> current() const {
    if (!read_lately_.load(std::memory_order_relaxed)) read_lately_.store(true, std::memory_order_relaxed);
    MutexLock lock(mutex_);
    return base_;
  }

  const std::shared_ptr<OpenFiles> owner_;
  const std::string path_;
  const OpenOptions options_;
  const std::uint64_t size_;
  const FileIdentity identity_;
  mutable std::atomic<bool> read_lately_{true};
  mutable bool listed_ = false;                       ///< guarded by the mutex of owner_
  mutable std::list<const File*>::iterator place_{};  ///< position in the owner's list; valid if listed_ is true
  mutable Mutex mutex_;
  mutable std::shared_ptr<const RandomAccessFile> base_ GUARDED_BY(mutex_);
};

Result<std::unique_ptr<RandomAccessFile>> OpenFiles::open(const std::string& path, const OpenOptions& options) {
  TRY_ASSIGN(base, open_base(path, options));
  auto file = std::make_unique<File>(shared_from_this(), path, options, std::move(base));
  opened(file.get());
  return std::unique_ptr<RandomAccessFile>(std::move(file));
}

void OpenFiles::set_limit(std::uint64_t limit) {
  std::vector<std::shared_ptr<const RandomAccessFile>> closed;
  MutexLock lock(mutex_);
  limit_ = limit;
  closed = close_down_to(most_open());
}

OpenFiles::Counts OpenFiles::counts() const {
  MutexLock lock(mutex_);
  return {files_.load(std::memory_order_relaxed), open_.size(), reopened_.load(std::memory_order_relaxed), limit_};
}

bool OpenFiles::newly_crowded() {
  MutexLock lock(mutex_);
  const double used = static_cast<double>(files_.load(std::memory_order_relaxed)) / static_cast<double>(most_open());
  const bool was = crowded_;
  crowded_ = used >= (was ? 0.7 : 0.8);
  return crowded_ && !was;
}

Result<std::shared_ptr<const RandomAccessFile>> OpenFiles::acquire(const File& of) {
  if (auto base = of.current(); base != nullptr) return base;
  auto again = open_base(of.path_, of.options_);
  if (!again.is_ok() && again.status().is_not_found())
    return Status::corruption(of.path_ + ": is missing, although it existed when the database was opened");
  if (!again.is_ok()) return again.status();
  std::shared_ptr<const RandomAccessFile> base = std::move(again).value();
  if (base->size() != of.size_) {
    return Status::corruption(of.path_ + ": has " + std::to_string(base->size()) + " bytes instead of " +
                              std::to_string(of.size_) + " as when it was opened");
  }
  if (base->identity() != of.identity_)
    return Status::corruption(of.path_ + ": was replaced by another file while the database had it open");
  reopened_.fetch_add(1, std::memory_order_relaxed);
  {
    MutexLock lock(of.mutex_);
    if (of.base_ != nullptr) return of.base_;  // another reader opened the file first
    of.base_ = base;
  }
  opened(&of);
  return base;
}

Result<std::shared_ptr<const RandomAccessFile>> OpenFiles::open_base(const std::string& path, const OpenOptions& options) {
  auto file = fs_.open(path, options);
  if (!file.is_ok() && !file.status().is_not_found()) {
    {
      std::vector<std::shared_ptr<const RandomAccessFile>> closed;
      MutexLock lock(mutex_);
      closed = close_down_to(open_.size() / 2);
    }
    file = fs_.open(path, options);
  }
  if (!file.is_ok()) return file.status();
  return std::shared_ptr<const RandomAccessFile>(std::move(file).value());
}

void OpenFiles::opened(const File* file) {
  std::vector<std::shared_ptr<const RandomAccessFile>> closed;
  MutexLock lock(mutex_);
  if (!file->listed_) {
    file->place_ = open_.insert(open_.end(), file);
    file->listed_ = true;
  }
  closed = close_down_to(most_open());
}

void OpenFiles::forget(const File* file) {
  MutexLock lock(mutex_);
  if (file->listed_) open_.erase(file->place_);
}

std::vector<std::shared_ptr<const RandomAccessFile>> OpenFiles::close_down_to(std::size_t most) {
  std::vector<std::shared_ptr<const RandomAccessFile>> closed;
  // Each file is skipped at most once, however fast other threads read the files.
  for (std::size_t spared = 0, all = open_.size(); open_.size() > most;) {
    const File* const oldest = open_.front();
    if (spared < all && oldest->read_lately_.exchange(false, std::memory_order_relaxed)) {
      ++spared;
      open_.splice(open_.end(), open_, open_.begin());
      continue;
    }
    open_.pop_front();
    oldest->listed_ = false;
    MutexLock lock(oldest->mutex_);
    closed.push_back(std::exchange(oldest->base_, nullptr));
  }
  return closed;
}

}  // namespace ebbtide
