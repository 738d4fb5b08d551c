// A file system over another one that tracks which removals of names in one directory are not durable yet.
//
// Until its directory is synced, an unlinked name may come back after a power loss. A name whose unlink failed still exists. In
// both cases a purge is not done (engine/purge.h). Calls that remove no name go unchanged to the base file system.
#pragma once

#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "io/file_names.h"
#include "io/file_system.h"

namespace ebbtide {

/// Thread-safe.
class RemovalsFileSystem final : public FileSystem {
 public:
  /// `base` must outlive this object. `dir` is the watched directory; names are "dir/name", as join_path() makes them.
  RemovalsFileSystem(FileSystem& base, const std::string& dir) : base_(base), dir_(spelled(dir)) {}

  /// Returns the number of removals that have begun. A removal is counted before any caller can see that the name is removed.
  /// All these removals are durable once durable_removals() reaches the result.
  [[nodiscard]] std::uint64_t removals() const { return begun_.load(std::memory_order_acquire); }
  /// Returns the number of removals that had ended when the latest successful sync of the directory began.
  [[nodiscard]] std::uint64_t durable_removals() const { return durable_.load(std::memory_order_acquire); }
  /// Returns the names (without the directory) of numbered files whose unlink failed since the last call, so that the caller
  /// can unlink them again. Files without a number are left out, since the code that writes them replaces them.
  std::vector<std::string> take_unremoved();
  /// Like take_unremoved(), but keeps the list.
  [[nodiscard]] std::vector<std::string> unremoved() const;
  [[nodiscard]] bool has_unremoved() const { return unremoved_count_.load(std::memory_order_relaxed) != 0; }

  Result<std::unique_ptr<WritableFile>> create(const std::string& path, const OpenOptions& options = {}) override {
    return base_.create(path, options);
  }
  Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path, const OpenOptions& options = {}) override {
    return base_.open(path, options);
  }
  std::unique_ptr<ReadQueue> new_read_queue() override { return base_.new_read_queue(); }
  Status rename(const std::string& from, const std::string& to) override;
  Status unlink(const std::string& path) override;
  Status link(const std::string& from, const std::string& to) override { return base_.link(from, to); }
  Status truncate(const std::string& path, std::uint64_t size) override { return base_.truncate(path, size); }
  Status sync_file(const std::string& path) override { return base_.sync_file(path); }
  Status sync_dir(const std::string& dir) override;
  Status create_dir(const std::string& dir) override { return base_.create_dir(dir); }
  Status remove_dir(const std::string& dir) override { return base_.remove_dir(dir); }
  Result<std::vector<std::string>> list(const std::string& dir) override { return base_.list(dir); }
  Result<std::uint64_t> file_size(const std::string& path) override { return base_.file_size(path); }
  [[nodiscard]] bool exists(const std::string& path) override { return base_.exists(path); }
  Status punch_hole(const std::string& path, std::uint64_t offset, std::uint64_t length) override {
    return base_.punch_hole(path, offset, length);
  }
  Result<std::uint64_t> allocated_bytes(const std::string& path) override { return base_.allocated_bytes(path); }
  Result<std::uint64_t> link_count(const std::string& path) override { return base_.link_count(path); }
  Result<DiskSpace> disk_space(const std::string& dir) override { return base_.disk_space(dir); }
  Status allocate(const std::string& path, std::uint64_t bytes) override { return base_.allocate(path, bytes); }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override { return base_.lock(path); }

 private:
  /// Spells a directory as parent_path() does: "data/" becomes "data".
  [[nodiscard]] static std::string spelled(const std::string& dir) { return parent_path(join_path(dir, "x")); }
  [[nodiscard]] bool is_watched(const std::string& path) const { return parent_path(path) == dir_; }

  FileSystem& base_;
  const std::string dir_;
  std::atomic<std::uint64_t> begun_{0}, ended_{0}, durable_{0}, unremoved_count_{0};
  mutable Mutex mutex_;
  std::set<std::string> unremoved_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
