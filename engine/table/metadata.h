// The content of a table's metadata file as a value. The table builder makes it, a page drop changes it, and the reader decodes
// it.
//
// decode() is the inverse of encode(); engine/docs/formats.md has the grammar. decode() checks everything that can be checked
// without the data file, so code that uses a TableMetadata needs no bounds checks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <engine/options.h>
#include "base/table_stats.h"
#include "table/format.h"

namespace ebbtide {

/// Flags of a page. The numbers are part of the format.
inline constexpr std::uint32_t kPagePlainOnly = 1;  ///< the page has only values and compact entries: no tombstone, no header
inline constexpr std::uint32_t kPageHasTombstones = 2;
inline constexpr std::uint32_t kPageHasUnstamped = 4;  ///< the page has an entry without a stamp, other than tombstones
inline constexpr std::uint32_t kPageHasLarge = 8;      ///< the page has a large value, which is stored in separate blocks
inline constexpr std::uint32_t kPageHasDebts = 16;     ///< the page has an entry with a delete debt
inline constexpr std::uint32_t kPageAllFirst = 32;     ///< every entry has Entry::first: it is its key's oldest version
inline constexpr std::uint32_t kPageReplaced = 64;     ///< the page's new block is in the metadata file
inline constexpr std::uint32_t kPageDropped = 128;  ///< the page was dropped: it has no entries, and no permutation refers to it
inline constexpr std::uint32_t kPageTombstones = 256;  ///< the page has its tile's tombstones (h > 1), and a filter of its own
inline constexpr std::uint32_t kPageAllExpire = 512;   ///< every entry of the page has an expiry
inline constexpr std::uint32_t kPageFlagsMask = 1023;

/// Flags of a tile. The numbers are part of the format.
inline constexpr std::uint8_t kTileUniqueKeys = 1;      ///< the table has no version of the tile's keys outside the tile
inline constexpr std::uint8_t kTileContinues = 2;       ///< the tile's first key is also the last key of the tile before
inline constexpr std::uint8_t kTileSingleVersions = 4;  ///< the table has only one version of each of the tile's keys
/// The tile's separator may be the key of a dropped entry. For the first tile: the table's lower bound may be such a key.
inline constexpr std::uint8_t kTileStale = 8;
inline constexpr std::uint8_t kTileFlagsMask = 15;

struct PageMeta {
  /// Offset of the page's block in the data file. Dropped and replaced pages keep the offset, since their blocks must be punched.
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint64_t replaced_offset = 0;  ///< offset, in the metadata file, of the block that replaced the page
  std::uint32_t replaced_length = 0;
  std::uint32_t entries = 0;
  std::uint32_t flags = 0;
  SeqNum min_seq = 0, max_seq = 0;
  /// Smallest and largest delete key of the entries with a stamp; tombstones are left out. min > max: there are no such entries.
  DeleteKey min_delete_key = kNoStamp, max_delete_key = 0;
  Millis min_expiry = 0, max_expiry = 0;  ///< smallest and largest expiry of the entries; 0: no entry has an expiry
  std::uint64_t checksum = 0;             ///< checksum of the page's current block
  PointBounds points{};                   ///< bounds of the keys' points; empty if the table has none (TableStats::points_at)

  [[nodiscard]] bool dropped() const { return (flags & kPageDropped) != 0; }
  [[nodiscard]] bool replaced() const { return (flags & kPageReplaced) != 0; }
  [[nodiscard]] bool has_delete_keys() const { return min_delete_key <= max_delete_key; }
  void add(const Entry& entry);  ///< does not change `points`
  bool operator==(const PageMeta&) const = default;
};

struct TileMeta {
  std::uint32_t first_page = 0;
  std::uint8_t pages = 0;  ///< number of pages, 1 to 65
  std::uint8_t flags = 0;
  bool operator==(const TileMeta&) const = default;
};

/// A range of a data file.
struct FileExtent {
  std::uint64_t offset = 0, length = 0;
  bool operator==(const FileExtent&) const = default;
};
/// Sorts extents and joins adjacent ones. The extents must not overlap.
std::vector<FileExtent> join_extents(std::vector<FileExtent> extents);

enum class FilterKind : std::uint8_t {
  kNone = 0,
  kColumns = 1,
  kCollectionsTwice = 2  ///< like kColumns, but the filter has each collection's key twice: by hash_key() and collection_hash()
};

struct TableMetadata {
  TableStats stats;
  FileNum data_file = kNoFile;
  std::uint32_t data_version = kTableVersion;  ///< the data file's format; may be older than the metadata's
  std::uint64_t data_bytes = 0;
  /// Sum of the checksums of the data file's blocks, except those of dropped and replaced pages.
  std::uint64_t data_checksum = 0;
  std::uint64_t large_checksum = 0;  ///< sum of the checksums of large values' blocks; data_checksum includes it
  std::uint32_t unit = kSmallUnit;
  std::uint32_t pages_per_tile = 1;
  std::uint32_t page_size = 4096;
  Compression compression = Compression::kNone;
  FilterKind filter_kind = FilterKind::kNone;
  double filter_bits_per_key = 0;
  std::string key_prefix;  ///< the common prefix of all point keys

  std::vector<PageMeta> pages;  ///< the pages of all tiles, tile by tile
  std::vector<TileMeta> tiles;
  std::vector<std::string> separators;  ///< the separator of each tile (table/fences.h)
  std::vector<RangeTombstone> range_tombstones;
  std::vector<std::string> filter_slices;            ///< slices of the filter of all pages except pages of tombstones (h > 1)
  std::vector<std::string> tombstone_filter_slices;  ///< slices of the filter of pages of tombstones, which has one column
  std::string permutations;                          ///< permutations of all tiles, tile by tile (permutation_bits())
  std::vector<FileExtent> holes;                     ///< ranges of the data file, ascending, that had pages of removed tiles
  /// For encode(): number and payload of each page with the flag kPageReplaced, in page order. decode() leaves the list empty,
  /// since readers read these pages only when they need them, like other pages.
  std::vector<std::pair<std::uint32_t, std::string>> replaced;

  /// Returns the bytes of the metadata file. Sets offset, length and checksum of replaced pages, and `metadata_checksum` to the
  /// checksum of the whole file.
  std::string encode(FileNum metadata_file, std::uint64_t* metadata_checksum);
  /// Returns the ranges of the data file that no reader of this metadata needs, ascending, with adjacent ranges joined. These are
  /// holes and the blocks of dropped and replaced pages.
  [[nodiscard]] std::vector<FileExtent> dead_extents() const;
  /// Returns true if pages were dropped since the table was built. Some of its stats are then bounds instead of exact numbers.
  [[nodiscard]] bool has_drops() const;
  /// Returns true if renew_names() (table/page_drop.h) can remove lingering names: the table has entries but no range
  /// tombstones, and no stale tile begins with the last key of the tile before. Otherwise only rewriting the table removes
  /// lingering names.
  [[nodiscard]] bool names_can_be_renewed() const;
  /// Computes data_checksum from the checksums of header, pages and large values.
  [[nodiscard]] std::uint64_t sum_checksums() const;
  /// `path` is used in messages. Returns kCorruption if the file is damaged, kUnsupported if a newer version wrote it.
  static Result<TableMetadata> decode(Bytes file, FileNum metadata_file, const std::string& path);
  /// Returns the number of entries in all pages of a tile.
  [[nodiscard]] std::uint64_t tile_entries(std::size_t tile) const;
};

/// Returns the number of bits of an entry in a tile's permutation, bit_width(pages - 1). The permutation has, for each entry of
/// the tile in sort-key order, the number of its page within the tile, lowest bits first. Each tile begins at a byte boundary;
/// a tile of one page has no bytes.
[[nodiscard]] inline std::uint32_t permutation_bits(std::uint32_t pages) {
  std::uint32_t bits = 0;
  while ((std::uint32_t{1} << bits) < pages) ++bits;
  return bits;
}
/// Returns the number of bytes of the permutation of a tile with `pages` pages and `entries` entries.
[[nodiscard]] inline std::uint64_t permutation_bytes(std::uint32_t pages, std::uint64_t entries) {
  return (entries * permutation_bits(pages) + 7) / 8;
}
void append_permutation(std::uint32_t pages, const std::vector<std::uint8_t>& order, std::string* out);
/// Decodes a tile's permutation into `order`. `packed` begins with the tile's bytes and may be longer.
void unpack_permutation(Bytes packed, std::uint32_t pages, std::uint64_t entries, std::vector<std::uint8_t>* order);

/// encode_data_header() returns the header block of a data file of format `version`, and sets `*checksum` to the block's
/// checksum. check_data_header() checks such a block. The message of its error kUnsupported names both versions.
std::string encode_data_header(std::uint32_t version, FileNum data_file, std::uint32_t unit, std::uint64_t* checksum);
[[nodiscard]] inline std::uint64_t data_header_bytes(std::uint32_t unit) { return padded_block_bytes(24, unit); }
Status check_data_header(Bytes block, std::uint32_t version, FileNum data_file, std::uint32_t unit, const std::string& path);

}  // namespace ebbtide
