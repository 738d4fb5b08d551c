#include "table/format.h"

#include <lz4.h>
#include <zstd.h>

#include "base/checksum.h"
#include "base/coding.h"
#include "base/invariant.h"
#include "base/planted_bug.h"

namespace ebbtide {
namespace {

constexpr int kZstdLevel = 3;
constexpr std::size_t kRawLengthBytes = 4;

struct ZstdDecoder {
  ZSTD_DCtx* context = ZSTD_createDCtx();
  ZstdDecoder() = default;
  ~ZstdDecoder() { ZSTD_freeDCtx(context); }
  ZstdDecoder(const ZstdDecoder&) = delete;
  ZstdDecoder& operator=(const ZstdDecoder&) = delete;
};
ZSTD_DCtx* zstd_decoder() {
  thread_local ZstdDecoder decoder;
  return decoder.context;
}

}  // namespace

Status BlockPlace::corruption(const std::string& what) const {
  return Status::corruption((path != nullptr ? *path : "file " + std::to_string(file)) + ": block at " + std::to_string(offset) +
                            ": " + what);
}

Compressor::Compressor(Compression compression) : compression_(compression) {
  if (compression == Compression::kLz4) state_ = ::operator new(static_cast<std::size_t>(LZ4_sizeofState()));
  if (compression == Compression::kZstd) state_ = ZSTD_createCCtx();
}

Compressor::~Compressor() {
  if (compression_ == Compression::kLz4) ::operator delete(state_);
  if (compression_ == Compression::kZstd) ZSTD_freeCCtx(static_cast<ZSTD_CCtx*>(state_));
}

Bytes Compressor::compress(Bytes raw, Compression* used) {
  *used = Compression::kNone;
  ASSERT(raw.size() <= kMaxBlockBytes);
  if (compression_ == Compression::kNone || state_ == nullptr || raw.size() < 64) return raw;
  // Compression fails as soon as the result exceeds `limit`: it would save less than an eighth.
  const std::size_t limit = raw.size() - raw.size() / 8 - kRawLengthBytes;
  buffer_.resize(kRawLengthBytes + limit);
  std::size_t bytes = 0;
  if (compression_ == Compression::kLz4) {
    const int n = LZ4_compress_fast_extState(state_, raw.data(), buffer_.data() + kRawLengthBytes, static_cast<int>(raw.size()),
                                             static_cast<int>(limit), 1);
    bytes = n > 0 ? static_cast<std::size_t>(n) : 0;
  } else {
    const std::size_t n = ZSTD_compressCCtx(static_cast<ZSTD_CCtx*>(state_), buffer_.data() + kRawLengthBytes, limit, raw.data(),
                                            raw.size(), kZstdLevel);
    bytes = ZSTD_isError(n) ? 0 : n;
  }
  if (bytes == 0) return raw;
  *used = compression_;
  store_fixed(buffer_.data(), static_cast<std::uint32_t>(raw.size()));
  return Bytes(buffer_).substr(0, kRawLengthBytes + bytes);
}

std::uint64_t append_block(std::string* out, Bytes payload, Compression compression, BlockKind kind, std::uint64_t length,
                           FileNum file, std::uint64_t offset) {
  ASSERT(length >= payload.size() + kBlockTrailerBytes);
  const std::size_t begin = out->size();
  out->append(payload);
  out->append(length - payload.size() - kBlockTrailerBytes, '\0');
  put_u32(out, static_cast<std::uint32_t>(payload.size()));
  put_u8(out, static_cast<std::uint8_t>(static_cast<unsigned>(compression) | static_cast<unsigned>(kind) << 2));
  const std::uint64_t checksum = block_checksum(Bytes(*out).substr(begin), file, offset);
  put_u64(out, checksum);
  return checksum;
}

Result<CheckedBlock> check_block(Bytes block, BlockKind expected, const BlockPlace& place) {
  if (block.size() < kBlockTrailerBytes) return place.corruption("shorter than its trailer");
  CheckedBlock checked;
  const char* const trailer = block.data() + block.size() - kBlockTrailerBytes;
  checked.checksum = load_fixed<std::uint64_t>(trailer + 5);
  const bool sound = block_checksum(block.substr(0, block.size() - 8), place.file, place.offset) == checked.checksum;
  if (!sound && !planted(PlantedBug::kIgnoreChecksum)) {
    return place.corruption("checksum mismatch");
  }
  const auto payload_bytes = load_fixed<std::uint32_t>(trailer);
  const auto type = static_cast<unsigned char>(trailer[4]);
  if (payload_bytes > block.size() - kBlockTrailerBytes) return place.corruption("payload longer than the block");
  if ((type & 3u) > static_cast<unsigned>(Compression::kZstd)) return place.corruption("unknown compression");
  if (type >> 2 != static_cast<unsigned>(expected)) return place.corruption("block of another kind than expected");
  checked.payload = block.substr(0, payload_bytes);
  checked.compression = static_cast<Compression>(type & 3u);
  checked.kind = expected;
  return checked;
}

Result<std::size_t> decoded_bytes(const CheckedBlock& block, const BlockPlace& place) {
  if (block.compression == Compression::kNone) return block.payload.size();
  if (block.payload.size() < kRawLengthBytes) return place.corruption("compressed payload too short");
  const std::size_t bytes = load_fixed<std::uint32_t>(block.payload.data());
  if (bytes > kMaxBlockBytes) return place.corruption("decoded length exceeds the maximum");
  return bytes;
}

Status decode_block(const CheckedBlock& block, char* out, std::size_t bytes, const BlockPlace& place) {
  Bytes body = block.payload;
  if (block.compression == Compression::kNone) {
    if (body.size() != bytes) return place.corruption("length differs from the expected one");
    body.copy(out, bytes);
    return Status::ok();
  }
  body.remove_prefix(kRawLengthBytes);
  if (block.compression == Compression::kLz4) {
    const int n = LZ4_decompress_safe(body.data(), out, static_cast<int>(body.size()), static_cast<int>(bytes));
    if (n < 0 || static_cast<std::size_t>(n) != bytes) return place.corruption("does not decompress (lz4)");
    return Status::ok();
  }
  const std::size_t n = ZSTD_decompressDCtx(zstd_decoder(), out, bytes, body.data(), body.size());
  if (ZSTD_isError(n) || n != bytes) return place.corruption("does not decompress (zstd)");
  return Status::ok();
}

Result<Bytes> decode_block(Bytes block, BlockKind expected, const BlockPlace& place, std::string* scratch) {
  TRY_ASSIGN(checked, check_block(block, expected, place));
  if (checked.compression == Compression::kNone) return checked.payload;
  TRY_ASSIGN(bytes, decoded_bytes(checked, place));
  scratch->resize(bytes);
  TRY(decode_block(checked, scratch->data(), bytes, place));
  return Bytes(*scratch);
}

}  // namespace ebbtide
