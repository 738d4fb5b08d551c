// Values of more than kLargeValueBytes: each is stored in blocks of its own in the data file, one after the other.
//
//   chunk block, ..., chunk block, index block
//
// A chunk holds kLargeChunkBytes of the value (the last chunk may hold less) and is compressed on its own. The index holds the
// value's length (u64) and each chunk's payload length (u32). The index comes last, so that each chunk can be written before the
// next one is compressed. A merge copies a value into another table without decompressing the chunks: it verifies each checksum,
// and computes it again for the new file and offset.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>

#include "base/entry.h"
#include "io/file_system.h"
#include "table/format.h"

namespace ebbtide {

/// Returns the number of chunks of a value of `length` bytes.
[[nodiscard]] inline std::uint64_t large_chunks(std::uint64_t length) {
  return (length + kLargeChunkBytes - 1) / kLargeChunkBytes;
}
/// Returns how many bytes of a value of `length` bytes chunk `i` has.
[[nodiscard]] inline std::uint64_t large_chunk_bytes(std::uint64_t length, std::uint64_t i) {
  return std::min<std::uint64_t>(kLargeChunkBytes, length - i * kLargeChunkBytes);
}
[[nodiscard]] inline std::uint64_t large_index_bytes(std::uint64_t length) { return 8 + 4 * large_chunks(length); }

/// Reads large values from a data file, which must outlive this object. Copyable; thread-safe.
struct LargeValueFile {
  const RandomAccessFile* file = nullptr;
  const std::string* path = nullptr;
  FileNum number = kNoFile;
  std::uint32_t unit = kSmallUnit;
  std::uint64_t data_bytes = 0;

  /// Calls `chunk` with each chunk in order, checked but not decoded. The views are valid during the call.
  Status visit(const LargeValueRef& ref, const std::function<Status(const CheckedBlock&, const BlockPlace&)>& chunk) const;
  /// Reads the whole value.
  Result<std::string> read(const LargeValueRef& ref) const;
  /// Copies the bytes [offset, offset + to.size()) of the value to `to`; the range must be inside the value. Reads the index and
  /// only the chunks with these bytes.
  Status copy(const LargeValueRef& ref, std::uint64_t offset, std::span<char> to) const;
  /// Reads and decodes the whole value, one chunk at a time.
  Status verify(const LargeValueRef& ref) const;

 private:
  using Chunk = std::function<Status(std::uint64_t i, const CheckedBlock& block, const BlockPlace& place)>;
  /// Calls `chunk` with the chunks first <= i < end in order, checked but not decoded.
  Status visit(const LargeValueRef& ref, std::uint64_t first, std::uint64_t end, const Chunk& chunk) const;
  /// Decodes chunk `i` into `out`, and checks the number of bytes.
  static Status decode(const LargeValueRef& ref, std::uint64_t i, const CheckedBlock& block, const BlockPlace& place, char* out);
  Status read_index(const LargeValueRef& ref, std::string* block, Bytes* payload) const;
};

}  // namespace ebbtide
