// Which pages may go: of entries that are all dead, without being read; of a few more, in part.
//
// A page goes whole if all that follows holds, by what is in memory alone:
//   1. Every entry is dead: each has an expiry and all have passed; or all are stamped, and records cover the page's whole
//      range of delete keys with seqs above every seq in it. Expiry is judged now and knows no views. Records are judged for
//      every view that can see an entry of the page, and for all that are to come.
//   2. It holds plain values only: a dead header stays until a range tombstone over its elements is committed; a large value lies
//      in blocks whose place only the page knows; a tombstone is needed for what it hides.
//   3. Nothing older of its keys comes to light. In this table: the tile has all versions of its keys (`unique_keys`), and one of
//      each, or the rest of the tile is newer than the whole page. In older runs, one of three:
//      a. none of them overlaps the tile: the run is final there;
//      b. all entries of the page are flagged `first`;
//      c. delete keys grow with seqs in this tree (write_time), and records cover everything from the smallest delete key of the
//         older files that overlap the tile: older versions are stamped with less, so they are covered as well. Holds for records
//         only, and as long as those files are there, so are the records (they retire last).
//   4. It owes nothing but what dies with it: a page with debts goes only where the run is final.
// Newer runs and memtables do not matter: what they have hides the page's entries anyway.
//
// Pages that records cover in part are read and replaced by what is left, if all of these in a table, with what earlier drops
// replaced, are at most an eighth of it: the edge pages of a delete in a KiWi layout. A layout in which a delete touches every
// page is left to merges and the deadline. Expiry goes whole or not at all: the page at its edge changes every moment.
//
// So are pages that records cover whole, but that stay for condition 3 alone, while they fit in that eighth as well: a filter that
// was wrong once, at the flush, is enough for a version not to be flagged `first`, and a page of it would keep a table of an upper
// level from being rid of a delete without a merge. Entry by entry older runs' filters are asked again: where they deny the key
// the entry goes, else it becomes a tombstone.
//
// A drop writes the table's metadata anew. So pages wait until they are worth it: until they free as many bytes as that writes,
// or a quarter of the deadline has passed since they died.
#pragma once

#include <functional>

#include "deletes/record.h"
#include "table/page_drop.h"
#include "tree/plan.h"
#include "version/version.h"

namespace ebbtide {

/// Replaced pages are at most one part in so many of a table: beyond it nothing more goes in part, but with merges, or when the
/// deadline writes the table anew.
inline constexpr std::uint64_t kReplacedShare = 8;

struct PageDropInput {
  const Version* version = nullptr;
  const RecordSet* records = no_records().get();  ///< of the version
  std::vector<SeqNum> view_seqs{};                ///< open views that read this version, ascending
  SeqNum visible_seq = kMaxSeqNum;                ///< greatest seq that a reader can have
  Millis now = 0;
  Millis delete_deadline = 0;  ///< 0 = none
  Millis purge_before = 0;     ///< what died by then goes now, worth it or not
  std::function<const TableReader*(const FileMeta& file)> table{};
  std::function<bool(FileNum data_file)> busy{};              ///< inputs of running jobs: skipped; may be null
  std::function<SeqNum(FileNum metadata_file)> parts_done{};  ///< records up to it had their chance in parts; may be null
};

struct PageDrops {
  Plan plan;             ///< a Drop, or empty
  Millis next_look = 0;  ///< when, with nothing else changed, more may go; 0 = never
};

/// Pure. O(pages) of the tables that may have something dead.
PageDrops plan_page_drops(const PageDropInput& input);

/// What becomes of an entry of a page that is dropped in part. `nothing_older`: the run is final for the tile, and the tile has
/// single versions. A tombstone where something older may be left; an entry that must not go stays.
EntryVerdict judge_entry(const Entry& entry, const RecordSet& records, std::span<const SeqNum> view_seqs, SeqNum visible_seq,
                         bool nothing_older);

/// The oldest birth that dropping the page settles: of its entries' expiries if they have passed, and of records that cover
/// them; 0 = none.
Millis birth_of(const PageFence& page, const RecordSet& records, Millis now);

}  // namespace ebbtide
