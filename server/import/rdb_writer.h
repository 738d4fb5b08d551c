// Writes an RDB file, which Redis loads at its start.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "import/rdb_reader.h"

namespace ebbtide {

/// Writes one file. Until it is complete, the file has the name `path`.part. Not thread-safe.
class RdbWriter {
 public:
  /// Creates `path`.part, readable by its owner only. kExists: `path` exists and `replace` is false, or `path`.part exists.
  /// kIoError: the file cannot be created.
  static Result<std::unique_ptr<RdbWriter>> create(const std::string& path, bool replace);
  /// Removes `path`.part, unless finish() has succeeded.
  ~RdbWriter();
  RdbWriter(const RdbWriter&) = delete;
  RdbWriter& operator=(const RdbWriter&) = delete;

  /// Adds a key. All keys of a database must be added together. `version`: the RDB version of the value, equal for all keys.
  Status add(const RdbEntry& entry, unsigned version);
  /// Writes the end of the file, syncs the file, and renames it to `path`.
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
