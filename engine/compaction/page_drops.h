// Chooses the pages to drop: whole pages of dead entries, without reading them, and a few more pages in part.
//
//   page                                                       action
//   meets every condition of a full drop (page_conditions.h)   dropped as a whole, without a read
//   records cover some of its entries, not all                 an edge: read, and replaced by its survivors
//   records cover all; older runs may have versions of keys    may hide: read, and replaced by tombstones, or nothing
//   any other                                                  stays
//
// Edges are the pages at the two ends of a deleted stamp range, in a layout with delete tiles. Edges are dropped in part if they,
// together with pages that earlier drops replaced, are at most an eighth of the table. If a delete has entries in every page,
// merges remove these entries, at the latest for the deadline. Pages that may hide older versions are dropped in part within the
// same eighth. A false positive of a filter at the flush is enough for a version not to be flagged `first`. Without a partial
// drop, its page would then keep a deleted entry in an upper level until a merge. The filters of older runs are checked again for
// each entry: if they deny the key, the entry is removed; otherwise it becomes a tombstone.
//
// A page of which only some entries have expired is not dropped in part, since other entries would expire soon after.
//
// A drop rewrites the table's metadata. So pages wait until the drop frees as many bytes as it writes, or until a quarter of the
// deadline has passed since their entries died.
//
// Keys of dropped entries may remain in fence separators and bounds. The planner `names` later renews them, once for many drops.
// A drop of overdue entries renews them itself: otherwise `names` would follow at once and write the same metadata again.
#pragma once

#include <functional>

#include "compaction/page_conditions.h"
#include "deletes/record.h"
#include "table/page_drop.h"
#include "tree/plan.h"
#include "version/version.h"

namespace ebbtide {

/// Partial drops replace pages by their survivors in at most 1 / kReplacedShare of a table's bytes. In further pages, merges or a
/// rewrite for the deadline remove the deleted entries.
inline constexpr std::uint64_t kReplacedShare = 8;

struct PageDropInput {
  const Version* version = nullptr;
  const RecordSet* records = no_records().get();  ///< the records of the version
  SeqNum visible_seq = kMaxSeqNum;                ///< the visible seq now: every later reader has this seq or a greater one
  Millis now = 0;
  Millis delete_deadline = 0;  ///< 0 = none
  Millis purge_before = 0;     ///< entries that died by this time are dropped now, even if the drop writes more than it frees
  /// Returns the open table of a file. The result is used until the next call. Null: the table cannot be read now; a later search
  /// for pages tries again.
  std::function<const TableInspector*(const FileMeta& file)> table{};
  std::function<bool(FileNum data_file)> busy{};  ///< returns true for inputs of running jobs, which are skipped; may be null
  /// Returns the seq up to which partial drops for records were tried in this table; may be null.
  std::function<SeqNum(FileNum metadata_file)> parts_done{};
};

struct PageDrops {
  Plan plan;             ///< a Drop, or empty
  Millis next_look = 0;  ///< time at which more pages may be due without any change of the tree; 0 = never
};

/// Pure. Takes O(pages) of the tables that may have dead entries.
PageDrops plan_page_drops(const PageDropInput& input);

/// Judges an entry of a page that is dropped in part. An entry that a reader may need stays. A dead entry becomes a tombstone if
/// older versions may exist, otherwise it is removed. `nothing_older`: true if the run is final for the tile, and the tile has
/// only one version of each key.
EntryVerdict judge_entry(const Entry& entry, const RecordSet& records, SeqNum visible_seq, bool nothing_older);

/// Returns the oldest birth of a delete that a drop of the page purges: a passed expiry of an entry, or a record that covers
/// entries; 0 = none.
Millis birth_of(const PageFence& page, const RecordSet& records, Millis now);

}  // namespace ebbtide
