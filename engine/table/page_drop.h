// Drops pages of a table, by writing a new metadata file for the same data file.
//
// A page is dropped whole, without being read, or in part. For a partial drop the page is read, and PageDropRequest::judge
// decides on each entry. The survivors form a new page in the metadata file, which replaces the old page. The data file does not
// change. Its dead ranges (TableMetadata::dead_extents) are punched when the last reader of an older metadata file has ended.
//
// 1. Pages: a tile that still has entries keeps its dropped pages in the page table, with the flag kPageDropped. So its other
//    pages keep their filter columns: the p-th column stands for the p-th page of every tile. The bits of a dropped page's keys
//    stay in its column. If they lead a lookup to the dropped page, the lookup reads nothing there. A tile without entries is
//    removed, and its pages become holes.
// 2. Names: the separator of a removed tile is removed, too. If a tile stays but its first entry is dropped, the separator may be
//    that entry's key. Likewise the table's bounds may be the keys of its first and last entry. The permutation shows this
//    without reading a page, and the tile gets the flag kTileStale. A page must be read to replace such a key by another, so this
//    work may wait: drop_pages() sets `names_may_linger`, and the caller calls renew_names() once for many drops, before the
//    deadline of the dropped entries. If the entries are overdue, the caller sets PageDropRequest::renew_names: then the same
//    pass renews the names, and the metadata is written only once.
// 3. Statistics: some cannot be computed without reading the dropped pages, and become bounds: key_bytes, value_bytes, debts,
//    unstamped, collections, smallest and largest. All others stay exact.
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

/// The decision on an entry: it stays, is removed, or becomes a tombstone.
enum class EntryFate : std::uint8_t { kStays, kGoes, kBecomesTombstone };

/// The decision for one entry of a page that is dropped in part.
struct EntryVerdict {
  EntryFate fate = EntryFate::kStays;
  Millis birth = 0;  ///< birth of the tombstone, if fate is kBecomesTombstone
};

struct PageDropRequest {
  std::vector<std::uint32_t> whole;  ///< numbers of pages to drop whole, ascending; none has large values
  std::vector<std::uint32_t> parts;  ///< numbers of pages to drop in part, ascending; none is in `whole`
  /// Decides on one entry of a page in `parts`.
  std::function<EntryVerdict(const PageFence& page, const Entry& entry)> judge{};
  /// Returns the table's new applied_seq, once all entries of `parts` were judged. If null, applied_seq does not change.
  std::function<SeqNum()> applied_seq{};
  /// True: if names linger after the drop, the same pass renews them, as renew_names() would. If that is impossible, or a page
  /// cannot be read, the pages are dropped without it, and the names linger.
  bool renew_names = false;
};

struct PageDropOutcome {
  /// File numbers, sizes, checksums and statistics. The metadata file was written and synced, but not its directory.
  BuiltTable built;
  /// True if the drop leaves no entry and no range tombstone. Then no file was written, and the caller must unlink the table.
  bool nothing_left = false;
  bool names_may_linger = false;  ///< true if separators of stale tiles, or the table's bounds, may be keys of dropped entries
  bool names_renewed = false;     ///< true if no name lingers, from this drop or earlier ones
  /// Numbers of dropped pages; a page that was dropped in part and has no survivors counts as whole.
  std::uint32_t pages_whole = 0, pages_in_part = 0;
  std::uint64_t entries_gone = 0;  ///< number of entries that were removed or became tombstones; 0: no file was written
  ReadCounters reads;              ///< counts of the reads of pages; all 0 if no page was dropped in part and no name was renewed
  std::shared_ptr<TableReader> table{};  ///< the new table, open; null if no file was written
};

/// Drops the requested pages. `metadata_file` is a new file number; after an error that file is removed if possible. Returns
/// kInvalidArgument if a page of the request does not exist, was dropped before or has large values.
Result<PageDropOutcome> drop_pages(const TableReader& table, const PageDropRequest& request, FileSystem& fs,
                                   const std::string& dir, FileNum metadata_file);

/// Removes lingering names: writes a new metadata file. In it, keys of existing entries replace the table's bounds, and every
/// separator that may be the key of a dropped entry. Reads the page of the first entry of each stale tile, and the page of the
/// table's last entry. Drops no page. Returns the errors of drop_pages(), and kInvalidArgument if
/// TableReader::names_can_be_renewed() is false.
Result<PageDropOutcome> renew_names(const TableReader& table, FileSystem& fs, const std::string& dir, FileNum metadata_file);

}  // namespace ebbtide
