// The set of segments in the directory, with their sizes; removes those that are no longer needed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/file_system.h"

namespace ebbtide {

struct LogSegment {
  FileNum file = kNoFile;
  std::uint64_t bytes = 0;
};

/// Thread-compatible: the owner locks. I/O happens in open() and remove_before() only.
class LogSet {
 public:
  /// The segments in `dir`; this set uses `fs` and `dir` from now on.
  static Result<LogSet> open(FileSystem& fs, std::string dir);

  /// Oldest first.
  [[nodiscard]] const std::vector<LogSegment>& segments() const { return segments_; }
  [[nodiscard]] std::uint64_t live_bytes() const;

  /// Adds a new segment, with the largest number.
  void add(FileNum file, std::uint64_t bytes);
  /// The newest segment has grown to `bytes`.
  void set_newest_bytes(std::uint64_t bytes);

  /// Syncs the directory once, so that their replacements are durable, then unlinks the segments older than `oldest`, oldest
  /// first. No I/O if there are none. After an error the remaining segments are still in the set; call it again later.
  Status remove_before(FileNum oldest);

 private:
  LogSet(FileSystem& fs, std::string dir) : fs_(&fs), dir_(std::move(dir)) {}
  FileSystem* fs_;
  std::string dir_;
  std::vector<LogSegment> segments_;
};

}  // namespace ebbtide
