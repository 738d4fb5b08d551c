// The conditions under which a page may be dropped as a whole, without being read. Pure: computes a verdict from the page's
// fence.
//
// A deleted entry hides older versions of its key. If its page were dropped too early, these would come back. So a page is
// dropped only if all of these conditions hold:
//
//   1. death                  Every entry is dead. Either each has an expiry, and all have passed; judged now, for all readers. Or
//                             each has a stamp, and records with seqs above every seq of the page cover all its delete keys;
//                             every reader to come sees these records. So no reader needs it.
//   2. plain                  It has plain values only. A dead header stays until a range tombstone over its elements is
//                             committed. A large value is in blocks whose place only the page has. A tombstone hides older
//                             versions.
//   3. Older versions of its keys stay deleted, wherever they may be:
//      in this table          `tile_has_all_versions`: a lookup of its keys reads no other tile. Within the tile:
//                             keep_pages_that_hide().
//      in older runs, one of  `final`: none of them overlaps the tile;
//                             `all_first`: each entry is flagged as the oldest version of its key;
//                             `older_are_covered`: delete keys grow with seqs in this tree (StampMode::kWriteTime), and records
//                             cover everything from the smallest delete key of the older files over the tile. Older versions have
//                             smaller stamps, so they are covered too. The records exist as long as those files do. This counts
//                             only if records, not expiries, make the page dead.
//   4. debts                  It has no delete debts, or the run is final.
//
// Newer runs and memtables do not matter: their entries hide the page's entries anyway.
#pragma once

#include <optional>
#include <span>

#include "deletes/record.h"
#include "table/table_inspector.h"

namespace ebbtide {

/// The deletes and readers that pages are judged for.
struct DropJudge {
  const RecordSet* records = nullptr;
  SeqNum visible_seq = kMaxSeqNum;  ///< greatest seq that a reader can have
  Millis now = 0;
};

/// Properties of the older runs with respect to one tile.
struct TileBelow {
  bool final = false;  ///< no older run overlaps the tile
  /// A lower bound of the delete keys of all entries in older files over the tile. None: such an entry may have no stamp, or
  /// delete keys do not grow with seqs.
  std::optional<DeleteKey> smallest_stamp{};
};

/// The reason why all entries of a page are dead. kExpired if both apply.
enum class PageDeath : std::uint8_t { kNone, kExpired, kCovered };

/// The conditions 1 to 4 for one page, each by itself. tests/engine/compaction/page_conditions_test.cc has the table of verdicts.
struct PageConditions {
  PageDeath death = PageDeath::kNone;
  bool plain = false;
  bool tile_has_all_versions = false;
  bool final = false;
  bool all_first = false;
  bool older_are_covered = false;  ///< tested only for kCovered
  bool debts = false;
};

[[nodiscard]] PageConditions conditions_of(const PageFence& page, const TileBelow& below, const DropJudge& judge);
/// True if the page meets all conditions, without the one about other pages of its tile: keep_pages_that_hide() tests that.
[[nodiscard]] bool may_go_whole(const PageConditions& conditions);

/// A page of a tile, and whether it will be dropped as a whole.
struct TilePage {
  std::uint32_t number = 0;
  PageFence fence;
  bool goes = false;
};
/// Condition 3 within a tile: clears `goes` for each page whose keys may have older versions in pages that stay. A page needs no
/// such check if the tile has single versions, if all its entries are `first`, or if it is older than every page that stays.
void keep_pages_that_hide(std::span<TilePage> pages);

/// True if some entry has expired, by the page's fence.
[[nodiscard]] bool some_expired(const PageFence& page, Millis now);
/// True if a record above `applied_seq` may cover an entry of the page.
[[nodiscard]] bool some_covered(const PageFence& page, const RecordSet& records, SeqNum applied_seq);
/// True if every entry is covered for every reader to come: condition 1 by records.
[[nodiscard]] bool all_covered(const PageFence& page, const DropJudge& judge);

}  // namespace ebbtide
