// The format of blocks in both files of a table.
//
// A block is  payload | zeros | payload length u32 | type u8 | checksum u64.  Its length is a multiple of the file's unit: 8
// bytes, or the file system's block if pages are punched out (h > 1). The checksum covers everything before the checksum and is
// bound to the file's number and the block's offset. So it detects a change of any byte, and a block of another file or offset.
// The type byte has the kind of block and the compression of its payload. A compressed payload is  raw length u32 | compressed
// bytes.
// engine/docs/formats.md has the grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <engine/options.h>
#include <engine/result.h>
#include "io/file_system.h"

namespace ebbtide {

inline constexpr std::uint32_t kTableDataMagic = 0x44544245;      // "EBTD"
inline constexpr std::uint32_t kTableMetadataMagic = 0x4d544245;  // "EBTM"
inline constexpr std::uint32_t kTableVersion = 3;  // version 1 has no compact entries; versions 1 and 2 have no elements
inline constexpr std::uint32_t kOldestTableVersion = 1;

inline constexpr std::size_t kBlockTrailerBytes = 13;
/// Unit of files with one page per tile (h = 1): offsets and lengths of their blocks are multiples of this number of bytes.
inline constexpr std::uint32_t kSmallUnit = 8;
inline constexpr std::uint32_t kPunchUnit = 4096;  ///< unit of files with h > 1: file systems punch holes in multiples of this
/// The largest decoded size of a block. A reader reports a larger length field as damage, and allocates no memory for it.
inline constexpr std::size_t kMaxBlockBytes = std::size_t{64} << 20;
/// Bytes of a large value that are stored in one block, before compression.
inline constexpr std::size_t kLargeChunkBytes = std::size_t{256} << 10;

/// The numbers are part of the format: they are bits 2 to 4 of the type byte. Bits 0 and 1 are the compression, bits 5 to 7 are
/// zero.
enum class BlockKind : std::uint8_t { kPage = 0, kLargeIndex = 1, kLargeChunk = 2, kFileHeader = 3 };

/// States where a block is, for checksums and messages.
struct BlockPlace {
  const std::string* path = nullptr;
  FileNum file = kNoFile;
  std::uint64_t offset = 0;

  /// Returns a message like "dir/000012.data: block at 8192: <what>".
  [[nodiscard]] Status corruption(const std::string& what) const;
};

[[nodiscard]] inline std::uint64_t padded_block_bytes(std::uint64_t payload_bytes, std::uint32_t unit) {
  return (payload_bytes + kBlockTrailerBytes + unit - 1) / unit * unit;
}

/// Compresses a payload if that saves at least an eighth of its bytes. Reuses its memory for the next payload. Not thread-safe.
class Compressor {
 public:
  explicit Compressor(Compression compression);
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;
  /// Returns the payload for `raw`: a view of `raw` itself, or of a buffer that is valid until the next call. Sets `*used` to
  /// the compression of the result.
  Bytes compress(Bytes raw, Compression* used);

 private:
  Compression compression_;
  void* state_ = nullptr;
  std::string buffer_;
};

/// Appends the block of `payload` to `out`. The block must be stored at `offset` of `file`. `length` is the block's length, at
/// least padded_block_bytes(). Returns the block's checksum.
std::uint64_t append_block(std::string* out, Bytes payload, Compression compression, BlockKind kind, std::uint64_t length,
                           FileNum file, std::uint64_t offset);

/// A block that passed its checksum.
struct CheckedBlock {
  Bytes payload;
  Compression compression = Compression::kNone;
  BlockKind kind = BlockKind::kPage;
  std::uint64_t checksum = 0;
};
/// Checks checksum, kind and padding. The payload of the result is a view of `block`.
Result<CheckedBlock> check_block(Bytes block, BlockKind expected, const BlockPlace& place);
/// Returns the size of the decoded payload, at most kMaxBlockBytes.
Result<std::size_t> decoded_bytes(const CheckedBlock& block, const BlockPlace& place);
/// Decodes a block into `out`. `bytes` is the result of decoded_bytes(), and `out` has room for that many bytes.
Status decode_block(const CheckedBlock& block, char* out, std::size_t bytes, const BlockPlace& place);
/// Checks and decodes a block. The result is a view of `block` if the block is not compressed, otherwise of `scratch`.
Result<Bytes> decode_block(Bytes block, BlockKind expected, const BlockPlace& place, std::string* scratch);

}  // namespace ebbtide
