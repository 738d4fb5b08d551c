// Appends records to one segment. A thin, single-threaded thing: queueing, grouping and syncing policy are the commit pipeline's.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/file_system.h"

namespace ebbtide {

/// One record: the pieces of a WriteBatch payload, in order.
using LogRecord = std::vector<Bytes>;

/// Not thread-safe.
class LogWriter {
 public:
  /// Creates segment `file` in `dir`, writes its header, syncs file and directory.
  static Result<std::unique_ptr<LogWriter>> create(FileSystem& fs, const std::string& dir, FileNum file);
  ~LogWriter();

  /// All records in one write.
  Status append(std::span<const LogRecord> records);
  /// Durable up to the last append. After an error the segment is bad for good: every later call fails.
  Status sync();
  Status close();
  [[nodiscard]] FileNum file() const { return file_; }
  [[nodiscard]] std::uint64_t size() const;

 private:
  LogWriter(std::unique_ptr<WritableFile> out, FileNum file);
  std::unique_ptr<WritableFile> out_;
  FileNum file_;
  Status bad_;
  std::string scratch_;        // record headers of one append
  std::vector<Bytes> pieces_;  // what one append hands to the file
};

}  // namespace ebbtide
