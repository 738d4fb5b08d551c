// The segments that are still needed: which there are, how large, and which may go.
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
  /// The segments that lie in `dir`, which `fs` and this set use from now on.
  static Result<LogSet> open(FileSystem& fs, std::string dir);

  /// Oldest first.
  [[nodiscard]] const std::vector<LogSegment>& segments() const { return segments_; }
  [[nodiscard]] std::uint64_t live_bytes() const;

  /// A new segment. Its number is greater than all others'.
  void add(FileNum file, std::uint64_t bytes);
  /// The newest segment has grown to `bytes`.
  void set_newest_bytes(std::uint64_t bytes);

  /// Unlinks the segments older than `oldest`, oldest first, after one sync of the directory: what replaces them is durable
  /// before they go. Does no I/O if there are none. After an error the segments that remain are still in the set; try again
  /// later.
  Status remove_before(FileNum oldest);

 private:
  LogSet(FileSystem& fs, std::string dir) : fs_(&fs), dir_(std::move(dir)) {}
  FileSystem* fs_;
  std::string dir_;
  std::vector<LogSegment> segments_;
};

}  // namespace ebbtide
