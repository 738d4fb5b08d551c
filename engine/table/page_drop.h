// Drops pages of a table, by writing a new metadata file for the same data file.
//
// A page is dropped whole, without being read, or in part. For a partial drop the page is read, `judge` decides on each entry,
// and the survivors form a new page in the metadata file that replaces the old page. The data file is not changed. Its dead
// ranges (TableMetadata::dead_extents) are punched once no reader of an older metadata file is left.
//
// 1. A tile with remaining pages keeps all its slots, since a column of the filter stands for the same slot of every tile. The
// bits of a dropped page's keys stay in its column. A lookup that they lead to the dropped page reads nothing. A tile without
// entries is removed,
//    and its slots become holes.
// 2. Names: the separator of a removed tile is removed too. If a tile stays but its first entry is dropped, the separator may be
//    that entry's key. Likewise the table's bounds may be the keys of its first and last entry. The permutation shows this
//    without reading a page, and the tile is flagged stale. Such a key can only be replaced by another after a page was read, so
//    that work is delayed. drop_pages() sets `names_may_linger`. The caller calls renew_names() once for many drops, before the
//    deadline of the dropped entries.
// 3. Some numbers depend on dropped entries and become bounds: key_bytes, value_bytes, debts, unstamped, collections, smallest
//    and largest. All others stay exact.
//
// compaction/page_drops.h decides which pages may be dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/file_system.h"
#include "table/table_builder.h"
#include "table/table_reader.h"

namespace ebbtide {

enum class EntryFate : std::uint8_t { kStays, kGoes, kBecomesTombstone };

/// The decision for one entry of a page that is dropped in part.
struct EntryVerdict {
  EntryFate fate = EntryFate::kStays;
  Millis birth = 0;  ///< birth of the tombstone, if fate is kBecomesTombstone
};

struct PageDropRequest {
  std::vector<std::uint32_t> whole;  ///< numbers of pages to drop whole, ascending; none has large values
  std::vector<std::uint32_t> parts;  ///< numbers of pages to drop in part, ascending; none is in `whole`
  /// Called for each entry of the pages in `parts`.
  std::function<EntryVerdict(const PageFence& page, const Entry& entry)> judge{};
  /// Called when all entries of `parts` were judged; returns the table's new applied_seq. Null: unchanged.
  std::function<SeqNum()> applied_seq{};
};

struct PageDropOutcome {
  /// File numbers, sizes, checksums and stats. The metadata file was written and synced, its directory not yet.
  BuiltTable built;
  /// True if no entry and no range tombstone is left: no file was written, and the caller unlinks the table.
  bool nothing_left = false;
  bool names_may_linger = false;  ///< true if separators of stale tiles, or the table's bounds, may be keys of dropped entries
  /// Numbers of dropped pages; a page that was dropped in part and has no survivors counts as whole.
  std::uint32_t pages_whole = 0, pages_in_part = 0;
  std::uint64_t entries_gone = 0;        ///< number of entries that were removed or became tombstones; 0: no file was written
  ReadCounters reads;                    ///< counts reads of pages; zero if no page was dropped in part
  std::shared_ptr<TableReader> table{};  ///< the new table, open; null if no file was written
};

/// Drops the requested pages. `metadata_file` is a new file number; after an error that file is removed if possible. Returns
/// kInvalidArgument if a page of the request does not exist, was dropped before or has large values.
Result<PageDropOutcome> drop_pages(const TableReader& table, const PageDropRequest& request, FileSystem& fs,
                                   const std::string& dir, FileNum metadata_file);

/// Writes a new metadata file in which existing keys replace the bounds and every separator that may be the key of a dropped
/// entry. Reads the page of the first entry of each stale tile, and that of the table's last entry. Drops nothing. Errors are as
/// for drop_pages(), and kInvalidArgument unless TableReader::names_can_be_renewed().
Result<PageDropOutcome> renew_names(const TableReader& table, FileSystem& fs, const std::string& dir, FileNum metadata_file);

}  // namespace ebbtide
