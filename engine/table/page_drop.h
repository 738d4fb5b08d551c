// Drops pages of a table: writes a new metadata file for the same data file.
//
// A page is dropped whole, without being read, or in part. For a partial drop it is read, each entry is judged, and the survivors
// form a new page in the metadata file that replaces the old one. The data file is not changed; its dead ranges
// (TableMetadata::dead_extents) are punched once no reader of an older metadata file is left.
//
// 1. A tile with pages left keeps all its slots: the filter's columns are pages of tiles. A dropped page's keys stay in its
//    column, as bits, and lead to a slot that costs no I/O. A tile without entries is removed, and its slots become holes.
// 2. Names: the separator of a removed tile is removed too. If a tile stays but its first entry is dropped, the separator may be
//    that key; likewise the table's bounds may be its first and last key. The permutation shows this without reading a page, and
//    the tile is flagged stale. Choosing another name needs a page read, so that is delayed: `names_may_linger` is set, and
//    before the deadline of the dropped entries the caller calls renew_names(), once for many drops.
// 3. Numbers that depend on dropped entries become bounds: key_bytes, value_bytes, debts, unstamped, smallest and largest. All
//    others stay exact.
//
// compaction/page_drops.h decides which pages may go.
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

/// The result of a partial drop for one entry.
struct EntryVerdict {
  EntryFate fate = EntryFate::kStays;
  Millis birth = 0;  ///< of the tombstone
};

struct PageDropRequest {
  std::vector<std::uint32_t> whole;  ///< pages, ascending; without large values
  std::vector<std::uint32_t> parts;  ///< pages to drop in part, ascending; none is in `whole`
  std::function<EntryVerdict(const PageFence& page, const Entry& entry)> judge{};  ///< of the entries of `parts`
  std::function<SeqNum()> applied_seq{};  ///< called when all of `parts` is judged: raises the table's value; null: unchanged
};

struct PageDropOutcome {
  BuiltTable built;           ///< file numbers, sizes, checksums and stats; metadata file written and synced, directory not yet
  bool nothing_left = false;  ///< no entry and no range tombstone is left: no file was written, unlink the table
  bool names_may_linger = false;                     ///< in separators of stale tiles, or in the table's bounds
  std::uint32_t pages_whole = 0, pages_in_part = 0;  ///< dropped pages; a page in part without survivors counts as whole
  std::uint64_t entries_gone = 0;                    ///< entries that went or became tombstones; 0: no file was written
  ReadCounters reads;                                ///< of pages; zero if no page was dropped in part
  std::shared_ptr<TableReader> table{};              ///< the new table, open; null if no file was written
};

/// `metadata_file` is a new number; after an error the file is removed if possible. kInvalidArgument: a page of the request does
/// not exist, is dropped or has large values.
Result<PageDropOutcome> drop_pages(const TableReader& table, const PageDropRequest& request, FileSystem& fs,
                                   const std::string& dir, FileNum metadata_file);

/// Writes a new metadata file. Existing keys replace every separator that may be the name of a dropped key, and the bounds. Reads
/// the page of the first entry of each stale tile, and that of the table's last entry; drops nothing. Errors as above;
/// kInvalidArgument unless TableReader::names_can_be_renewed().
Result<PageDropOutcome> renew_names(const TableReader& table, FileSystem& fs, const std::string& dir, FileNum metadata_file);

}  // namespace ebbtide
