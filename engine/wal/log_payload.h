// The payload of a record, or of a batch in pieces. A long payload stays in the log's files, and readers read parts of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/file_system.h"

namespace ebbtide {

/// A sequence of parts, each in memory or in a file. Not thread-safe.
class LogPayload {
 public:
  void add(std::string bytes);
  void add(std::shared_ptr<const RandomAccessFile> file, std::uint64_t offset, std::uint64_t length);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Copies the `length` bytes from `offset` on to `out`. These bytes must be inside the payload.
  Status read(std::uint64_t offset, std::size_t length, char* out) const;
  /// Returns the whole payload. If the payload is one part in memory, that part is moved, not copied.
  [[nodiscard]] Result<std::string> to_string() &&;

 private:
  struct Part {
    std::uint64_t begin = 0;  // offset of the part in the payload
    std::string bytes;        // the part's bytes; empty if they are in `file`
    std::shared_ptr<const RandomAccessFile> file;
    std::uint64_t offset = 0, length = 0;  // offset and length of the bytes in the file
  };
  std::vector<Part> parts_;
  std::uint64_t size_ = 0;
};

}  // namespace ebbtide
