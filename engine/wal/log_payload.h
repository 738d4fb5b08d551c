// The payload of a long record, or of a batch in pieces. It stays in the log's files; readers read parts of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/file_system.h"

namespace ebbtide {

/// Parts in order, in memory or in files. Not thread-safe.
class LogPayload {
 public:
  void add(std::string bytes);
  void add(std::shared_ptr<const RandomAccessFile> file, std::uint64_t offset, std::uint64_t length);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Copies `length` bytes from `offset` on to `out`; they must be inside the payload.
  Status read(std::uint64_t offset, std::size_t length, char* out) const;
  /// Returns the whole payload. If it is one part in memory, that is moved.
  [[nodiscard]] Result<std::string> to_string() &&;

 private:
  struct Part {
    std::uint64_t begin = 0;  // in the payload
    std::string bytes;        // unless it is in a file
    std::shared_ptr<const RandomAccessFile> file;
    std::uint64_t offset = 0, length = 0;  // in the file
  };
  std::vector<Part> parts_;
  std::uint64_t size_ = 0;
};

}  // namespace ebbtide
