// Files that are read for a long time, of which only a limited number is open at the same time: the tables' files.
//
// A process may have only so many open files, and a database may have more tables. A file that was not read lately is closed, and
// opened again by its next read. The least recently read one is chosen approximately (CLOCK: a file that was read since the last
// look is passed over once). Code that reads such a file does not notice.
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

/// Thread-safe. Held by a shared pointer only: the files that it opened hold it, too.
class OpenFiles : public std::enable_shared_from_this<OpenFiles> {
 public:
  /// `limit`: files that may be open at the same time; 0 = any number. Reads in progress keep their files open beyond it.
  /// `fs` outlives the reads.
  OpenFiles(FileSystem& fs, std::uint64_t limit) : fs_(fs), limit_(limit) {}
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  /// Opens a file for reads. While it is closed its name must keep leading to it: a read of a name that is gone or leads to another
  /// file returns kCorruption. Errors: as FileSystem::open(). After any of them but kNotFound, half of the other files are closed and
  /// it is tried again: the process may have had no descriptor left.
  Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path, const OpenOptions& options = {});

  /// Closes files at once if there are too many.
  void set_limit(std::uint64_t limit);

  struct Counts {
    std::uint64_t files = 0;     ///< handed out by open() and not destroyed
    std::uint64_t open = 0;      ///< of these, open now
    std::uint64_t reopened = 0;  ///< times that a read had to open its file
    std::uint64_t limit = 0;     ///< 0 = none
  };
  [[nodiscard]] Counts counts() const;

  /// True once when the files have come to 80 % of the limit, and again only after they were fewer than 70 %.
  [[nodiscard]] bool newly_crowded();

 private:
  class File;

  /// The file of `of`, open: opens it if it is closed.
  Result<std::shared_ptr<const RandomAccessFile>> acquire(const File& of);
  Result<std::shared_ptr<const RandomAccessFile>> open_base(const std::string& path, const OpenOptions& options);
  void opened(const File* file);
  void forget(const File* file);
  [[nodiscard]] std::size_t most_open() const REQUIRES(mutex_) { return limit_ == 0 ? SIZE_MAX : limit_; }
  /// Takes files off the list until `most` are left. The caller releases the result, which closes them, without the mutex.
  [[nodiscard]] std::vector<std::shared_ptr<const RandomAccessFile>> close_down_to(std::size_t most) REQUIRES(mutex_);

  FileSystem& fs_;
  std::atomic<std::uint64_t> files_{0}, reopened_{0};
  mutable Mutex mutex_;  ///< before a File's; never held while a file is opened
  std::uint64_t limit_ GUARDED_BY(mutex_);
  bool crowded_ GUARDED_BY(mutex_) = false;
  std::list<const File*> open_ GUARDED_BY(mutex_);  ///< open and not about to be closed; the front is looked at first
};

}  // namespace ebbtide
