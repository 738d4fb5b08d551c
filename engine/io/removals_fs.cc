#include "io/removals_fs.h"

namespace ebbtide {

std::vector<std::string> RemovalsFileSystem::take_unremoved() {
  MutexLock lock(mutex_);
  std::vector<std::string> names(unremoved_.begin(), unremoved_.end());
  unremoved_.clear();
  unremoved_count_.store(0, std::memory_order_relaxed);
  return names;
}

std::vector<std::string> RemovalsFileSystem::unremoved() const {
  MutexLock lock(mutex_);
  return {unremoved_.begin(), unremoved_.end()};
}

// A removal is counted when it begins and again when it ends. A sync covers the removals that had ended when the sync began. A
// caller that finds a name removed then reads the number of begun removals, which includes this one. durable_removals() reaches
// that number only by a sync that began after this removal had ended.
Status RemovalsFileSystem::rename(const std::string& from, const std::string& to) {
  if (!is_watched(to)) return base_.rename(from, to);
  begun_.fetch_add(1, std::memory_order_acq_rel);
  const Status status = base_.rename(from, to);
  ended_.fetch_add(1, std::memory_order_acq_rel);
  return status;
}

Status RemovalsFileSystem::unlink(const std::string& path) {
  if (!is_watched(path)) return base_.unlink(path);
  begun_.fetch_add(1, std::memory_order_acq_rel);
  const Status status = base_.unlink(path);
  ended_.fetch_add(1, std::memory_order_acq_rel);
  if (status.is_ok() || status.is_not_found()) return status;
  const std::string name = path.substr(path.rfind('/') + 1);
  FileKind kind{};
  FileNum file = kNoFile;
  if (!parse_file_name(name, &kind, &file) || file == kNoFile) return status;
  // If the name belongs to a directory, it has no bytes of the database: no purge waits for its removal.
  if (base_.open(path).status().code() == Code::kCorruption) return status;
  MutexLock lock(mutex_);
  unremoved_.insert(name);
  unremoved_count_.store(unremoved_.size(), std::memory_order_relaxed);
  return status;
}

Status RemovalsFileSystem::sync_dir(const std::string& dir) {
  const std::uint64_t covered = ended_.load(std::memory_order_acquire);
  const Status status = base_.sync_dir(dir);
  if (!status.is_ok() || spelled(dir) != dir_) return status;
  std::uint64_t durable = durable_removals();
  while (durable < covered && !durable_.compare_exchange_weak(durable, covered, std::memory_order_acq_rel)) {
  }
  return status;
}

}  // namespace ebbtide
