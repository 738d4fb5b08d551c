// Limits the number of open files among those that are read for a long time, such as the files of tables.
//
// The system limits the open files of a process, and a database may have more tables than the limit. So a file that was not read
// lately is closed, and its next read opens it again; code that reads the file does not notice. CLOCK selects the file to close,
// approximately the least recently read file: a file that was read since CLOCK last examined it is skipped once.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "io/file_system.h"

namespace ebbtide {

/// Thread-safe. Create it as a shared_ptr, since each file that it has opened holds a shared_ptr to it.
class OpenFiles : public std::enable_shared_from_this<OpenFiles> {
 public:
  /// `limit`: number of files that may be open at once; 0 = no limit. Reads in progress keep their files open beyond the limit.
  /// `fs` must outlive the reads.
  OpenFiles(FileSystem& fs, std::uint64_t limit) : fs_(fs), limit_(limit) {}
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  /// Opens a file for reads. The caller must not remove or replace the file while the result exists: if its name is missing or
  /// leads to another file, a read that opens it again returns kCorruption. Errors are as for FileSystem::open(). After an
  /// error other than kNotFound, open() closes half of the other files and tries again, since the process may have had no
  /// descriptor left.
  Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path, const OpenOptions& options = {});

  /// Sets the limit, and closes files at once if too many are open.
  void set_limit(std::uint64_t limit);

  struct Counts {
    std::uint64_t files = 0;     ///< files returned by open() and not destroyed
    std::uint64_t open = 0;      ///< number of these files that are open now
    std::uint64_t reopened = 0;  ///< how often a read had to open its file again
    std::uint64_t limit = 0;     ///< 0 = no limit
  };
  [[nodiscard]] Counts counts() const;

  /// Returns true once when the number of files (Counts::files) reaches 80 % of the limit, and again only after it was below 70
  /// %.
  [[nodiscard]] bool newly_crowded();

 private:
  class File;

  /// Returns the base file system's file for `of`; opens the file if it is closed.
  Result<std::shared_ptr<const RandomAccessFile>> acquire(const File& of);
  Result<std::shared_ptr<const RandomAccessFile>> open_base(const std::string& path, const OpenOptions& options);
  void opened(const File* file);
  void forget(const File* file);
  [[nodiscard]] std::size_t most_open() const REQUIRES(mutex_) { return limit_ == 0 ? SIZE_MAX : limit_; }
  /// Removes files from the list of open files until `most` are left, and returns them. They are closed when the caller
  /// releases the result, which it does after unlocking the mutex.
  [[nodiscard]] std::vector<std::shared_ptr<const RandomAccessFile>> close_down_to(std::size_t most) REQUIRES(mutex_);

  FileSystem& fs_;
  std::atomic<std::uint64_t> files_{0}, reopened_{0};
  mutable Mutex mutex_;  ///< locked before a File's mutex; never held while a file is opened
  std::uint64_t limit_ GUARDED_BY(mutex_);
  bool crowded_ GUARDED_BY(mutex_) = false;
  std::list<const File*> open_ GUARDED_BY(mutex_);  ///< open files, in the order in which CLOCK examines them
};

}  // namespace ebbtide
