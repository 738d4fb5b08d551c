// Drops pages of a table: a new metadata file for the same data file, rebuilt from what lives.
//
// A page goes whole, without being read, or in part: then it is read, each of its entries is judged, and what stays makes a new
// page that lies in the metadata file and takes the old one's place. The data file is not touched; what nobody needs any more
// (TableMetadata::dead_extents) is punched once no reader of an older metadata file is left.
//
// 1. A tile with pages left keeps all its slots: the filter's columns are pages of tiles. A dropped page's keys stay in its
//    column, as bits, and lead to a slot that costs no I/O. A tile without entries goes, and its slots become holes.
// 2. Names: a tile that goes takes its separator along. Where a tile stays but its first entry goes, the separator may be the
//    name of that key; so may the table's bounds be those of its first and last. The permutation tells, without a page being
//    read, and the tile is flagged stale. To choose other names a page has to be read, so that waits: `names_may_linger` says so,
//    and before the deadline of what was dropped the caller has renew_names() do it, once for many drops.
// 3. Numbers that only the dropped entries knew become bounds: key_bytes, value_bytes, debts, unstamped, smallest and largest.
//    Everything else is exact.
//
// Which pages may go is not decided here: compaction/page_drops.h.
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

/// What a drop in part makes of an entry.
struct EntryVerdict {
  EntryFate fate = EntryFate::kStays;
  Millis birth = 0;  ///< of the tombstone
};

struct PageDropRequest {
  std::vector<std::uint32_t> whole;                                                ///< pages, ascending; without large values
  std::vector<std::uint32_t> parts;                                                ///< the same; none is in `whole`
  std::function<EntryVerdict(const PageFence& page, const Entry& entry)> judge{};  ///< of the entries of `parts`
  std::function<SeqNum()> applied_seq{};  ///< asked when all of `parts` is judged: raises that of the table; null: stays
};

struct PageDropOutcome {
  BuiltTable built;           ///< file numbers, sizes, checksums and stats; metadata file written and synced, directory not yet
  bool nothing_left = false;  ///< neither entry nor range tombstone: no file was written, the table may go as a whole
  bool names_may_linger = false;                     ///< in separators of stale tiles, or in the table's bounds
  std::uint32_t pages_whole = 0, pages_in_part = 0;  ///< what was dropped; a page of which nothing was left is whole
  std::uint64_t entries_gone = 0;                    ///< entries that went or became tombstones; 0: no file was written
  ReadCounters reads;                                ///< of pages; nothing if all went whole
  std::shared_ptr<TableReader> table{};              ///< what was built, open; null if no file was written
};

/// `metadata_file` is a fresh number; after an error there is no such file, if that works. A request that names a page that is
/// not there, is dropped or has large values is kInvalidArgument.
Result<PageDropOutcome> drop_pages(const TableReader& table, const PageDropRequest& request, FileSystem& fs,
                                   const std::string& dir, FileNum metadata_file);

/// A new metadata file in which every separator that may be the name of a dropped key, and the bounds, are made of keys that are
/// there. Reads the page of the first entry of each stale tile, and that of the table's last entry; drops nothing. Errors as
/// above; kInvalidArgument unless TableReader::names_can_be_renewed().
Result<PageDropOutcome> renew_names(const TableReader& table, FileSystem& fs, const std::string& dir, FileNum metadata_file);

}  // namespace ebbtide
