// The metadata file of a table as a value. The builder fills it in, a page drop rewrites it, the reader opens it.
//
// encode() and decode() are inverse; engine/docs/formats.md has the grammar. decode() checks everything that can be checked
// without the data file, so users of a TableMetadata need no bounds checks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <engine/options.h>
#include "base/table_stats.h"
#include "table/format.h"

namespace ebbtide {

/// Flags of a page. Numbers are part of the format.
inline constexpr std::uint32_t kPagePlainOnly = 1;  ///< only plain values: no tombstone, no header
inline constexpr std::uint32_t kPageHasTombstones = 2;
inline constexpr std::uint32_t kPageHasUnstamped = 4;  ///< has an entry without a stamp that is not a tombstone
inline constexpr std::uint32_t kPageHasLarge = 8;      ///< has a large value, stored in separate blocks
inline constexpr std::uint32_t kPageHasDebts = 16;
inline constexpr std::uint32_t kPageAllFirst = 32;     ///< every entry is its key's oldest version
inline constexpr std::uint32_t kPageReplaced = 64;     ///< its new block is in the metadata file
inline constexpr std::uint32_t kPageDropped = 128;     ///< dropped: no entries, no permutation refers to it
inline constexpr std::uint32_t kPageTombstones = 256;  ///< the page of a tile's tombstones (h > 1), with a filter of its own
inline constexpr std::uint32_t kPageAllExpire = 512;   ///< every entry has an expiry
inline constexpr std::uint32_t kPageFlagsMask = 1023;

/// Flags of a tile. Numbers are part of the format.
inline constexpr std::uint8_t kTileUniqueKeys = 1;      ///< all versions of each of its keys that the table has are in it
inline constexpr std::uint8_t kTileContinues = 2;       ///< its first key is also the last key of the tile before
inline constexpr std::uint8_t kTileSingleVersions = 4;  ///< the table has one version of each of its keys, no more
inline constexpr std::uint8_t kTileStale =
    8;  ///< its separator may be the name of a dropped key; for the first tile, the table's lower bound
inline constexpr std::uint8_t kTileFlagsMask = 15;

struct PageMeta {
  std::uint64_t offset = 0;  ///< of its block in the data file; also of a dropped or replaced page, since that range must be
                             ///< punched
  std::uint32_t length = 0;
  std::uint64_t replaced_offset = 0;  ///< of the block that replaced it, in the metadata file
  std::uint32_t replaced_length = 0;
  std::uint32_t entries = 0;
  std::uint32_t flags = 0;
  SeqNum min_seq = 0, max_seq = 0;
  DeleteKey min_delete_key = kNoStamp, max_delete_key = 0;  ///< of entries with a stamp, without tombstones; min > max: none
  Millis min_expiry = 0, max_expiry = 0;                    ///< 0: no entry has one
  std::uint64_t checksum = 0;                               ///< of its current block

  [[nodiscard]] bool dropped() const { return (flags & kPageDropped) != 0; }
  [[nodiscard]] bool replaced() const { return (flags & kPageReplaced) != 0; }
  [[nodiscard]] bool has_delete_keys() const { return min_delete_key <= max_delete_key; }
  void add(const Entry& entry);
  bool operator==(const PageMeta&) const = default;
};

struct TileMeta {
  std::uint32_t first_page = 0;
  std::uint8_t pages = 0;  ///< 1 to 65
  std::uint8_t flags = 0;
  bool operator==(const TileMeta&) const = default;
};

/// A range of a data file.
struct FileExtent {
  std::uint64_t offset = 0, length = 0;
  bool operator==(const FileExtent&) const = default;
};
/// Sorts extents and joins neighbours. They must not overlap.
std::vector<FileExtent> join_extents(std::vector<FileExtent> extents);

enum class FilterKind : std::uint8_t { kNone = 0, kColumns = 1 };

struct TableMetadata {
  TableStats stats;
  FileNum data_file = kNoFile;
  std::uint64_t data_bytes = 0;
  std::uint64_t data_checksum = 0;   ///< sum of the checksums of the data file's blocks, without dropped and replaced pages
  std::uint64_t large_checksum = 0;  ///< the part of it that belongs to large values
  std::uint32_t unit = kSmallUnit;
  std::uint32_t pages_per_tile = 1;
  std::uint32_t page_size = 4096;
  Compression compression = Compression::kNone;
  FilterKind filter_kind = FilterKind::kNone;
  double filter_bits_per_key = 0;
  std::string key_prefix;  ///< the common prefix of all point keys

  std::vector<PageMeta> pages;  ///< tile by tile
  std::vector<TileMeta> tiles;
  std::vector<std::string> separators;  ///< by tile; see table/fences.h
  std::vector<RangeTombstone> range_tombstones;
  std::vector<std::string> filter_slices;            ///< of all pages, except pages of tombstones (h > 1)
  std::vector<std::string> tombstone_filter_slices;  ///< of pages of tombstones: one column
  std::string permutations;                          ///< tile by tile; see PermutationReader
  std::vector<FileExtent> holes;                     ///< of the data file, ascending: the pages of removed tiles
  /// Payloads of the pages flagged kPageReplaced, in page order; decode() leaves this empty: readers read them like other pages.
  std::vector<std::pair<std::uint32_t, std::string>> replaced;

  /// The file's bytes. Sets offset, length and checksum of replaced pages. `metadata_checksum` is over all of the file.
  std::string encode(FileNum metadata_file, std::uint64_t* metadata_checksum);
  /// The ranges of the data file that no reader of this metadata needs: holes and the slots of dropped and replaced pages,
  /// ascending, adjacent ones joined.
  [[nodiscard]] std::vector<FileExtent> dead_extents() const;
  /// True if pages were dropped since the table was built. Some of its stats are then bounds instead of exact numbers.
  [[nodiscard]] bool has_drops() const;
  /// True if renew_names() (table/page_drop.h) can help: the table has entries and no range tombstones, and no stale tile begins
  /// with the last key of the tile before. Otherwise the table must be rewritten.
  [[nodiscard]] bool names_can_be_renewed() const;
  /// Computes data_checksum from header, pages and large values.
  [[nodiscard]] std::uint64_t sum_checksums() const;
  /// `path` is for messages. kCorruption; kUnsupported if a newer version wrote the file.
  static Result<TableMetadata> decode(Bytes file, FileNum metadata_file, const std::string& path);
  /// Entries of all pages of a tile.
  [[nodiscard]] std::uint64_t tile_entries(std::size_t tile) const;
};

/// The page numbers (within the tile) of a tile's entries in sort-key order: bit_width(pages - 1) bits each, lowest bits first,
/// each tile from a byte boundary; nothing for a tile of one page.
[[nodiscard]] inline std::uint32_t permutation_bits(std::uint32_t pages) {
  std::uint32_t bits = 0;
  while ((std::uint32_t{1} << bits) < pages) ++bits;
  return bits;
}
[[nodiscard]] inline std::uint64_t permutation_bytes(std::uint32_t pages, std::uint64_t entries) {
  return (entries * permutation_bits(pages) + 7) / 8;
}
void append_permutation(std::uint32_t pages, const std::vector<std::uint8_t>& order, std::string* out);
/// Decodes a tile's permutation into `order`. `packed` begins with the tile's bytes and has all of them.
void unpack_permutation(Bytes packed, std::uint32_t pages, std::uint64_t entries, std::vector<std::uint8_t>* order);

/// The header block of a data file. decode checks it: kUnsupported names both versions.
std::string encode_data_header(FileNum data_file, std::uint32_t unit, std::uint64_t* checksum);
[[nodiscard]] inline std::uint64_t data_header_bytes(std::uint32_t unit) { return padded_block_bytes(24, unit); }
Status check_data_header(Bytes block, FileNum data_file, std::uint32_t unit, const std::string& path);

}  // namespace ebbtide
