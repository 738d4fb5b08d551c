// Writes an RDB file, which Redis loads at its start.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "import/rdb_reader.h"

namespace ebbtide {

/// Writes one file, under another name until it is complete. Not thread-safe.
class RdbWriter {
 public:
  /// Creates `path`.part, private to the user. kExists: `path` exists and `replace` is false, or `path`.part exists; kIoError:
  /// the file cannot be created.
  static Result<std::unique_ptr<RdbWriter>> create(const std::string& path, bool replace);
  /// Removes the part, unless finish() has returned success.
  ~RdbWriter();
  RdbWriter(const RdbWriter&) = delete;
  RdbWriter& operator=(const RdbWriter&) = delete;

  /// Adds a key. Keys of a database must follow each other. `version`: the RDB version of the value; all must be equal.
  Status add(const RdbEntry& entry, unsigned version);
  /// Writes the end, syncs the file and gives it its name.
  Status finish();
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  RdbWriter(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  Status write(Bytes bytes);
  Status begin(unsigned version);
  [[nodiscard]] Status failed() const;

  const std::string path_;
  std::FILE* const file_;
  bool finished_ = false;
  unsigned version_ = 0;
  std::optional<std::uint64_t> database_;
  std::uint64_t crc_ = 0, bytes_ = 0;
};

}  // namespace ebbtide
