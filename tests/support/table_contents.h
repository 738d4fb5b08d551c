// What the files of tables say that nobody sees who looks for it in their bytes: what compressed blocks hold, keys of which a page has
// but the ends, separators that begin as the one before does.
#pragma once

#include <string>

#include "io/file_names.h"
#include "table/format.h"
#include "table/metadata.h"
#include "table/page.h"

namespace ebbtide {

/// What was met so far.
struct BlocksMet {
  std::size_t compressed = 0;             ///< with lz4 or zstd
  std::size_t compressed_tombstones = 0;  ///< of those, pages with nothing but tombstones
};

/// Appends to `out` the keys of a page, each in one piece. False if it is no page.
inline bool append_keys(Bytes page, std::string* out, bool* only_tombstones) {
  if (check_page(page, kMaxFileNum) != nullptr) return false;
  const PageView view(page);
  std::string key;
  Entry entry;
  *only_tombstones = true;
  for (std::uint32_t i = 0; i < view.count(); ++i) {
    view.read(i, nullptr, &key, &entry);
    *out += key + '\n';
    *only_tombstones &= entry.is_tombstone();
  }
  return true;
}

/// Appends what the blocks in `file` hold: keys of pages, contents of compressed blocks. They are found by their form alone, whatever a
/// table's metadata says of them, so also those that it does not know any more; and no checksum has to be right: who looks for what
/// should be gone rather sees too much.
inline void append_blocks(Bytes file, std::string* out, BlocksMet* met) {
  constexpr std::size_t kLengthBytes = 4, kRawLengthBytes = 4;
  constexpr std::size_t kLongest = 4 * kLargeChunkBytes;  // no page of a test is longer
  const BlockPlace nowhere;
  std::string raw;
  for (std::size_t at = 0; at + kBlockTrailerBytes <= file.size(); ++at) {  // of a trailer
    if (file[at + kLengthBytes - 1] != '\0') continue;                      // no payload is so long
    const auto type = static_cast<unsigned char>(file[at + kLengthBytes]);
    if ((type & 3u) > static_cast<unsigned>(Compression::kZstd) || type >> 2 > static_cast<unsigned>(BlockKind::kLargeChunk))
      continue;
    const std::size_t bytes = load_fixed<std::uint32_t>(file.data() + at);
    if (bytes <= kRawLengthBytes) continue;
    // How many of the zeros before the trailer are padding the payload alone can tell.
    for (std::size_t zeros = 0; bytes + zeros <= at && zeros < kPunchUnit; ++zeros) {
      if (zeros != 0 && file[at - zeros] != '\0') break;
      CheckedBlock block;
      block.payload = file.substr(at - zeros - bytes, bytes);
      block.compression = static_cast<Compression>(type & 3u);
      block.kind = static_cast<BlockKind>(type >> 2);
      bool tombstones = false;
      if (block.compression == Compression::kNone) {
        if (block.kind != BlockKind::kPage || append_keys(block.payload, out, &tombstones)) break;
        continue;
      }
      const std::size_t raw_bytes = load_fixed<std::uint32_t>(block.payload.data());
      if (raw_bytes - raw_bytes / 8 < bytes || raw_bytes > kLongest) continue;  // compressed only if that saves an eighth
      if (raw.size() < raw_bytes) raw.resize(raw_bytes);
      if (!decode_block(block, raw.data(), raw_bytes, nowhere).is_ok()) continue;
      const Bytes content = Bytes(raw).substr(0, raw_bytes);
      out->append(content);
      ++met->compressed;
      if (block.kind == BlockKind::kPage && append_keys(content, out, &tombstones) && tombstones) ++met->compressed_tombstones;
      break;
    }
  }
}

/// Appends what is hidden in one of the files of a data directory, if anything is.
inline void append_hidden(const std::string& path, Bytes file, std::string* out, BlocksMet* met) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  FileKind kind{};
  FileNum number = kNoFile;
  if (!parse_file_name(name, &kind, &number)) return;
  if (kind == FileKind::kData || kind == FileKind::kMetadata || kind == FileKind::kTemporary) append_blocks(file, out, met);
  if (kind != FileKind::kMetadata) return;
  const auto table = TableMetadata::decode(file, number, path);
  if (!table.is_ok()) return;  // not whole; what it has is among its bytes
  for (const std::string& separator : table->separators) *out += separator + '\n';
}

}  // namespace ebbtide
