// Reads forward through an untrusted file in chunks. It allocates one chunk, never the size that a length field claims.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/checksum.h"
#include "io/file_system.h"

namespace ebbtide {

/// Keeps one chunk; larger reads go directly to their destination. Not thread-safe. `file` outlives it.
class ChunkedReader {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

  explicit ChunkedReader(const RandomAccessFile& file) : file_(file) {}

  [[nodiscard]] std::uint64_t size() const { return file_.size(); }

  /// Reads `length` bytes at `offset`; the range must be inside the file.
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

  /// Adds `length` bytes at `offset`, inside the file, to a checksum. Takes the memory of one chunk.
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

/// Readers allocate up to this many bytes for a length field that may be damaged or hostile. For a larger one they check the checksum
/// first.
inline constexpr std::uint64_t kBelievedBytes = std::uint64_t{16} << 20;

}  // namespace ebbtide
