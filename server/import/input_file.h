// Reads a file or standard input from front to end, in large blocks, and keeps its CRC.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <engine/result.h>

namespace ebbtide {

/// One input. After an error, every call returns an error. Not thread-safe.
class InputFile {
 public:
  /// Opens a file; "-" is standard input. kIoError: `path` cannot be opened, or is a directory or a pipe; the message names it.
  static Result<std::unique_ptr<InputFile>> open(const std::string& path);
  /// Reads from memory, for tests.
  static std::unique_ptr<InputFile> of(std::string bytes);
  virtual ~InputFile() = default;

  /// Returns the file's name, for messages.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Returns the size in bytes; nullopt for a pipe.
  [[nodiscard]] virtual std::optional<std::uint64_t> size() const = 0;
  /// Returns the offset of the next byte.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

  /// Returns the next byte without taking it; nullopt at the end.
  [[nodiscard]] Result<std::optional<char>> peek();
  /// Appends the next `n` bytes to `out`. kCorruption if fewer are left. Allocates only for bytes that the input really has, even
  /// if a damaged file makes `n` very large.
  Status take(std::uint64_t n, std::string* out);
  /// Returns the CRC-64 of all bytes taken, as RDB files store it.
  [[nodiscard]] std::uint64_t crc() const { return crc_; }

 protected:
  explicit InputFile(std::string name) : name_(std::move(name)) {}

 private:
  /// Reads up to `n` bytes, and returns how many; 0 at the end.
  virtual Result<std::size_t> read(char* to, std::size_t n) = 0;
  /// Fills the buffer if it is empty. Returns false at the end.
  Result<bool> fill();

  const std::string name_;
  std::string buffer_;
  std::size_t used_ = 0;  // bytes of the buffer that were taken
  std::uint64_t offset_ = 0, crc_ = 0;
};

}  // namespace ebbtide
