// Reads forward through an untrusted file in chunks. Allocates memory for one chunk, never the size that a length field claims.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/checksum.h"
#include "io/file_system.h"

namespace ebbtide {

/// Keeps one chunk in memory. A read longer than a chunk goes directly into the caller's buffer. Not thread-safe. `file` must
/// outlive the reader.
class ChunkedReader {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

  explicit ChunkedReader(const RandomAccessFile& file) : file_(file) {}

  [[nodiscard]] std::uint64_t size() const { return file_.size(); }

  /// Reads `length` bytes at `offset` into `out`; the range must be inside the file.
  Status read(std::uint64_t offset, std::size_t length, char* out) {
    if (length > kChunkBytes) return file_.read(offset, length, out);
    if (offset < start_ || offset + length > start_ + chunk_.size()) {
      start_ = offset;
      chunk_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, file_.size() - offset)));
      TRY(file_.read(start_, chunk_.size(), chunk_.data()));
    }
    std::copy_n(chunk_.data() + (offset - start_), length, out);
    return Status::ok();
  }

  /// Adds `length` bytes at `offset`, inside the file, to a checksum. Needs memory for one chunk only.
  Status add_to(BlockChecksummer* checksum, std::uint64_t offset, std::uint64_t length) {
    std::string piece;
    for (std::uint64_t done = 0; done < length; done += piece.size()) {
      piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, length - done)));
      TRY(read(offset + done, piece.size(), piece.data()));
      checksum->update(piece);
    }
    return Status::ok();
  }

 private:
  const RandomAccessFile& file_;
  std::uint64_t start_ = 0;
  std::string chunk_;
};

/// A reader allocates at most this many bytes for a length field before the field's checksum is verified: the field may be
/// damaged or hostile.
inline constexpr std::uint64_t kBelievedBytes = std::uint64_t{16} << 20;

}  // namespace ebbtide
