// The conditions under which a page may be dropped as a whole, without being read. Pure: the verdict needs only the page's fence
// and facts about older runs.
//
// A deleted entry hides older versions of its key. If its page were dropped too early, these versions would come back. So a page
// is dropped only if all of these conditions hold:
//
//   1. death                  Every entry is dead, for one of two reasons. All entries have an expiry that has passed; this
//                             applies to all readers at once. Or all entries have stamps, and records with seqs above every seq
//                             of the page cover these stamps; every future reader sees these records.
//   2. plain                  The page has plain values only. A dead header must stay until a range tombstone over its elements
//                             is committed. A large value's blocks can be found only through the page. A tombstone hides older
//                             versions.
//   3. Older versions of the page's keys stay deleted, wherever they may be:
//      in this table          `tile_has_all_versions`: a lookup of these keys reads no other tile. Within the tile:
//                             keep_pages_that_hide().
//      in older runs, one of  `final`: no older run overlaps the tile;
//                             `all_first`: each entry is flagged as the oldest version of its key;
//                             `older_are_covered`: delete keys grow with seqs in this tree (StampMode::kWriteTime), and records
//                             cover all delete keys from the smallest one in older files that overlap the tile. Older versions
//                             have smaller stamps than the page's entries, so they are covered, too. The records exist as long
//                             as the older files do. Tested only if records, not expiries, make the page dead.
//   4. debts                  The page has no delete debts, or the run is final.
//
// Newer runs and memtables do not matter: their entries hide the page's entries anyway.
#pragma once

#include <optional>
#include <span>

#include "deletes/record.h"
#include "table/table_inspector.h"

namespace ebbtide {

/// The records, readers and time by which pages are judged.
struct DropJudge {
  const RecordSet* records = nullptr;
  SeqNum visible_seq = kMaxSeqNum;  ///< the visible seq now: every later reader has this seq or a greater one
  Millis now = 0;
};

/// The properties of the older runs for one tile.
struct TileBelow {
  bool final = false;  ///< true if no older run overlaps the tile
  /// A lower bound of the delete keys of all entries in older files that overlap the tile. No value: one of these entries may
  /// have no stamp, or delete keys do not grow with seqs in this tree.
  std::optional<DeleteKey> smallest_stamp{};
};

/// The reason why all entries of a page are dead: kExpired if both reasons apply, kNone if some entry may live.
enum class PageDeath : std::uint8_t { kNone, kExpired, kCovered };

/// The conditions of the list above for one page, each tested on its own. tests/engine/compaction/page_conditions_test.cc has the
/// table of verdicts.
struct PageConditions {
  PageDeath death = PageDeath::kNone;
  bool plain = false;
  bool tile_has_all_versions = false;
  bool final = false;
  bool all_first = false;
  bool older_are_covered = false;  ///< tested only if death is kCovered
  bool debts = false;
};

[[nodiscard]] PageConditions conditions_of(const PageFence& page, const TileBelow& below, const DropJudge& judge);
/// Returns true if the page meets all conditions, except the condition about other pages of its tile, which
/// keep_pages_that_hide() tests.
[[nodiscard]] bool may_go_whole(const PageConditions& conditions);

/// A page of a tile.
struct TilePage {
  std::uint32_t number = 0;
  PageFence fence;
  /// True if the page will be dropped as a whole; keep_pages_that_hide() may clear it.
  bool goes = false;
};
/// Keeps pages that hide older versions in their own tile. Clears `goes` for a page if its keys may have older versions in pages
/// that are not dropped. A page has no such versions in three cases: the tile has only one version of each key, all entries of
/// the page are `first`, or all pages that are not dropped are newer.
void keep_pages_that_hide(std::span<TilePage> pages);

/// Returns true if some entry has expired, according to the page's fence.
[[nodiscard]] bool some_expired(const PageFence& page, Millis now);
/// Returns true if a record above `applied_seq` may cover an entry of the page.
[[nodiscard]] bool some_covered(const PageFence& page, const RecordSet& records, SeqNum applied_seq);
/// Returns true if records cover every entry of the page for every future reader (condition 1: dead by records, not by expiry).
[[nodiscard]] bool all_covered(const PageFence& page, const DropJudge& judge);

}  // namespace ebbtide
