// The index of an open table: page table, fences, permutations, range tombstones. In addition to the index, a search needs only
// the filter and the pages.
//
// The index is immutable and is built from the metadata file. The index cache (table/index_cache.h) may unload it while the
// table stays open; the table reads it again when it is needed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <engine/read_view.h>
#include "deletes/range_tombstone.h"
#include "table/fences.h"
#include "table/metadata.h"
#include "table/page_fences.h"

namespace ebbtide {

/// The data of a page in an index: 16 bytes.
struct PageInfo {
  std::uint64_t offset : 48;  ///< offset in the data file, or in the metadata file if the page is replaced
  std::uint64_t flags : 16;
  std::uint32_t length;
  std::uint32_t entries;

  [[nodiscard]] bool dropped() const { return (flags & kPageDropped) != 0; }
  [[nodiscard]] bool replaced() const { return (flags & kPageReplaced) != 0; }
};
static_assert(sizeof(PageInfo) == 16);

struct TileInfo {
  std::uint32_t first_page;
  std::uint8_t pages;
  std::uint8_t flags;
};
static_assert(sizeof(TileInfo) == 8);

/// Returns true if a lookup must search the page. `number`: the page's number in its tile. `mask` and `tombstones`: the result
/// of LoadedFilter::candidates() for the key.
[[nodiscard]] inline bool is_candidate(const PageInfo& page, std::uint32_t number, std::uint64_t mask, bool tombstones) {
  if (page.dropped()) return false;
  if ((page.flags & kPageTombstones) != 0) return tombstones;
  return (mask >> number & 1) != 0;
}

/// Thread-safe.
struct TableIndex {
  /// Builds the index from `m`, which decode() has checked. Moves large members out of `m`.
  explicit TableIndex(TableMetadata* m);

  std::uint32_t h = 1;
  bool any_continues = false;  ///< true if a tile begins with the last key of the tile before
  bool any_replaced = false;
  bool renewable = false;  ///< the result of TableMetadata::names_can_be_renewed()
  Fences fences;
  std::vector<PageInfo> pages;
  std::vector<TileInfo> tiles;
  RoundedRanges delete_keys, expiries, seqs;  ///< ranges of each page
  std::uint32_t points_at = kNoPoints;
  std::vector<PointBounds> points;  ///< bounds of each tile's points; empty if they are unknown
  std::string permutations;
  std::vector<std::uint64_t> permutation_offsets;  ///< offset of each tile's permutation; empty if h = 1
  std::vector<FileExtent> dead;                    ///< the result of TableMetadata::dead_extents()
  std::uint64_t tombstone_bytes = 0, replaced_bytes = 0;
  SharedTombstones tombstones;

  /// Returns the approximate offset of a tile in the data file; `data_bytes`, the file's size, for tile = tiles.size().
  [[nodiscard]] std::uint64_t begin_of(std::uint32_t tile, std::uint64_t data_bytes) const;
  /// Returns the first tile that may have a version of `key`. Requires that the table has a tile.
  [[nodiscard]] std::uint32_t first_tile(Bytes key) const;
  /// Like first_tile(), for a caller that has already found `tile`, the last tile that begins at or before `key`.
  [[nodiscard]] std::uint32_t first_of(std::uint32_t tile, Bytes key) const;
  /// Returns true if the next tile begins with another version of `key`. Requires that this tile has a version of `key`.
  [[nodiscard]] bool goes_on(std::uint32_t tile, Bytes key) const {
    return tile + 1 < tiles.size() && (tiles[tile + 1].flags & kTileContinues) != 0 && fences.separator(tile + 1) == key;
  }
  /// Returns the first page of the tile `state.tile` that may have the key, or LookupState::kNoPage.
  [[nodiscard]] std::uint32_t first_candidate(const LookupState& state) const;
  /// Starts the memory load of the tile's row in the page table.
  void prefetch_tile(std::uint32_t tile) const;
  [[nodiscard]] std::uint64_t memory_bytes() const;

 private:
  void take_ranges(const TableMetadata& m);
};

}  // namespace ebbtide
