// Finds contents of table files that a search of their bytes misses: compressed blocks, keys of which a page stores only the
// ends, and separators that share a prefix with the separator before.
#pragma once

#include <string>

#include "io/file_names.h"
#include "table/format.h"
#include "table/metadata.h"
#include "table/page.h"

namespace ebbtide {

/// Counts the blocks that were found so far.
struct BlocksMet {
  std::size_t compressed = 0;             ///< blocks compressed by lz4 or zstd
  std::size_t compressed_tombstones = 0;  ///< of these, pages with only tombstones
};

/// Appends the whole keys of a page to `out`. Returns false if the bytes are no page.
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

/// Appends the contents of the blocks in `file`: keys of pages, and decompressed blocks. Blocks are found by their form alone,
/// without checksums, so blocks that are no longer in the metadata are found, too: a search for purged data should find too much
/// rather than too little.
inline void append_blocks(Bytes file, std::string* out, BlocksMet* met) {
  constexpr std::size_t kLengthBytes = 4, kRawLengthBytes = 4;
  constexpr std::size_t kLongest = 4 * kLargeChunkBytes;  // the longest page of a test
  const BlockPlace nowhere;
  std::string raw;
  for (std::size_t at = 0; at + kBlockTrailerBytes <= file.size(); ++at) {  // `at`: offset of a possible trailer
    if (file[at + kLengthBytes - 1] != '\0') continue;                      // a payload has less than 16 MiB
    const auto type = static_cast<unsigned char>(file[at + kLengthBytes]);
    if ((type & 3u) > static_cast<unsigned>(Compression::kZstd) || type >> 2 > static_cast<unsigned>(BlockKind::kLargeChunk))
      continue;
    const std::size_t bytes = load_fixed<std::uint32_t>(file.data() + at);
    if (bytes <= kRawLengthBytes) continue;
    // Only the payload shows how many of the zeros before the trailer are padding.
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
      if (raw_bytes - raw_bytes / 8 < bytes || raw_bytes > kLongest)
        continue;  // blocks are compressed only if that saves an eighth
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

/// Appends the hidden contents of one file of a data directory.
inline void append_hidden(const std::string& path, Bytes file, std::string* out, BlocksMet* met) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  FileKind kind{};
  FileNum number = kNoFile;
  if (!parse_file_name(name, &kind, &number)) return;
  if (kind == FileKind::kData || kind == FileKind::kMetadata || kind == FileKind::kTemporary) append_blocks(file, out, met);
  if (kind != FileKind::kMetadata) return;
  const auto table = TableMetadata::decode(file, number, path);
  if (!table.is_ok()) return;  // the file is incomplete; a search of its bytes finds the separators
  for (const std::string& separator : table->separators) *out += separator + '\n';
}

}  // namespace ebbtide
