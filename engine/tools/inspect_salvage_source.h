// Read access to the damaged directory. Unreadable sectors and missing ends of files read as zeros. So blocks with such sectors
// fail their checksums, and all other blocks of the file are readable.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "io/interposed_fs.h"

namespace ebbtide {

/// Reads files of the damaged directory. For one thread.
class SalvageSource final : public InterposedFileSystem {
 public:
  /// `stop` may be null; once it is true, all reads fail.
  SalvageSource(FileSystem& base, const std::atomic<bool>* stop) : InterposedFileSystem(base), stop_(stop) {}
  [[nodiscard]] bool stopped() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }

  /// Makes open(path) return a file of `bytes` bytes that begins with `head`, even if the real file is shorter, missing or
  /// damaged.
  void expect(const std::string& path, std::uint64_t bytes, std::string head);

  Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path, const OpenOptions& options) override;

  /// A range of a file that the drive could not read, and the reason.
  struct Unreadable {
    std::string path;
    std::uint64_t offset = 0, length = 0;
    std::string what;
  };
  [[nodiscard]] const std::vector<Unreadable>& unreadable() const { return unreadable_; }
  void note_unreadable(const std::string& path, std::uint64_t offset, std::uint64_t length, const Status& status);

 private:
  /// Refuses every operation that changes a file.
  Status around(const FileCall& call, const Run& run) override;

  struct Expected {
    std::uint64_t bytes = 0;
    std::string head;
  };
  std::map<std::string, Expected> expected_;
  std::vector<Unreadable> unreadable_;
  const std::atomic<bool>* const stop_;
};

}  // namespace ebbtide
