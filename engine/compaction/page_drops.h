// Chooses the pages to drop: whole pages of dead entries, without a read, and a few more in part.
//
// A page is dropped whole if all of these conditions hold, checked in memory alone:
//   1. Every entry is dead: each has an expiry and all have passed; or all are stamped, and records cover the page's whole range
//      of delete keys with seqs above every seq in it. Expiry is judged now, for all views. Records are judged for every view
//      that can see an entry of the page, and for all future ones.
//   2. It has plain values only. A dead header stays until a range tombstone over its elements is committed. A large value is in
//      blocks whose place only the page has. A tombstone hides older versions.
//   3. No older version of its keys becomes visible. In this table: the tile has all versions of its keys (`unique_keys`), and
//      one of each, or the rest of the tile is newer than the whole page. In older runs, one of three:
//      a. none of them overlaps the tile: the run is final there;
//      b. all entries of the page are flagged `first`;
//      c. delete keys grow with seqs in this tree (write_time), and records cover everything from the smallest delete key of the
//      older
//         files that overlap the tile. Older versions have smaller stamps, so they are covered too. True for records only; the
//         records exist as long as those files (they retire last).
//   4. It has no delete debts, or the run is final.
// Newer runs and memtables do not matter: their entries hide the page's entries anyway.
//
// Pages that records cover in part are read and replaced by their survivors, if these pages and earlier replaced ones are at most
// an eighth of the table: the edge pages of a delete in a KiWi layout. If a delete touches every page, merges and the deadline do
// the work. Expired pages are dropped whole or not at all: the page at the edge changes every moment.
//
// The same is done with pages that records cover whole but that fail only condition 3, within the same eighth. A false positive
// at the flush is enough for a version not to be flagged `first`. Its page would then keep a deleted entry in an upper level until
// a merge. Older runs' filters are asked again for each entry: if they deny the key the entry is removed, else it becomes a
// tombstone.
//
// A drop rewrites the table's metadata. So pages wait until the drop frees as many bytes as it writes, or a quarter of the
// deadline has passed since they died.
#pragma once

#include <functional>

#include "deletes/record.h"
#include "table/page_drop.h"
#include "tree/plan.h"
#include "version/version.h"

namespace ebbtide {

/// Replaced pages are at most this fraction (1 / n) of a table. Above it no more pages are dropped in part; merges, or a rewrite
/// for the deadline, remove the entries.
inline constexpr std::uint64_t kReplacedShare = 8;

struct PageDropInput {
  const Version* version = nullptr;
  const RecordSet* records = no_records().get();  ///< of the version
  std::vector<SeqNum> view_seqs{};                ///< open views that read this version, ascending
  SeqNum visible_seq = kMaxSeqNum;                ///< greatest seq that a reader can have
  Millis now = 0;
  Millis delete_deadline = 0;  ///< 0 = none
  Millis purge_before = 0;     ///< entries that died by then are dropped now, at any cost
  std::function<const TableReader*(const FileMeta& file)> table{};
  std::function<bool(FileNum data_file)> busy{};              ///< inputs of running jobs: skipped; may be null
  std::function<SeqNum(FileNum metadata_file)> parts_done{};  ///< partial drops were tried for records up to it; may be null
};

struct PageDrops {
  Plan plan;             ///< a Drop, or empty
  Millis next_look = 0;  ///< time when more pages may be dropped without another change; 0 = never
};

/// Pure. O(pages) of the tables that may have dead entries.
PageDrops plan_page_drops(const PageDropInput& input);

/// Judges an entry of a page that is dropped in part. `nothing_older`: the run is final for the tile, and the tile has single
/// versions. A dead entry becomes a tombstone if older versions may exist; an entry that is still needed stays.
EntryVerdict judge_entry(const Entry& entry, const RecordSet& records, std::span<const SeqNum> view_seqs, SeqNum visible_seq,
                         bool nothing_older);

/// The oldest pending birth that dropping the page purges: of its entries' passed expiries, and of records that cover them; 0 =
/// none.
Millis birth_of(const PageFence& page, const RecordSet& records, Millis now);

}  // namespace ebbtide
