#include "compaction/page_conditions.h"

#include <algorithm>

#include "table/metadata.h"

namespace ebbtide {
namespace {

bool has_flag(const PageFence& page, std::uint32_t flag) { return (page.flags & flag) != 0; }
bool has_stamps(const PageFence& page) { return page.min_delete_key <= page.max_delete_key; }

bool all_expired(const PageFence& page, Millis now) {
  return some_expired(page, now) && has_flag(page, kPageAllExpire) && page.max_expiry <= now;
}

/// Returns true if records cover every version with a delete key in [min, max] and a seq of the page. The records must be visible
/// to all readers that may see such a version.
bool covers_all(const PageFence& page, DeleteKey min, DeleteKey max, const DropJudge& judge) {
  if (has_flag(page, kPageHasUnstamped) || !has_stamps(page)) return false;
  return judge.records->covers_all(min, max, page.max_seq, judge.visible_seq);
}

PageDeath death_of(const PageFence& page, const DropJudge& judge) {
  if (all_expired(page, judge.now)) return PageDeath::kExpired;
  return all_covered(page, judge) ? PageDeath::kCovered : PageDeath::kNone;
}

bool older_are_covered(const PageFence& page, const TileBelow& below, const DropJudge& judge) {
  if (!below.smallest_stamp) return false;
  return covers_all(page, std::min(page.min_delete_key, *below.smallest_stamp), page.max_delete_key, judge);
}

}  // namespace

bool some_expired(const PageFence& page, Millis now) { return page.min_expiry <= page.max_expiry && page.min_expiry <= now; }

bool some_covered(const PageFence& page, const RecordSet& records, SeqNum applied_seq) {
  return has_stamps(page) && records.may_cover(page.min_delete_key, page.max_delete_key, page.min_seq, applied_seq);
}

bool all_covered(const PageFence& page, const DropJudge& judge) {
  return covers_all(page, page.min_delete_key, page.max_delete_key, judge);
}

PageConditions conditions_of(const PageFence& page, const TileBelow& below, const DropJudge& judge) {
  PageConditions c;
  c.death = death_of(page, judge);
  c.plain = has_flag(page, kPagePlainOnly) && !has_flag(page, kPageHasLarge);
  c.tile_has_all_versions = page.unique_keys;
  c.final = below.final;
  c.all_first = has_flag(page, kPageAllFirst);
  c.older_are_covered = c.death == PageDeath::kCovered && older_are_covered(page, below, judge);
  c.debts = has_flag(page, kPageHasDebts);
  return c;
}

bool may_go_whole(const PageConditions& c) {
  if (c.death == PageDeath::kNone) return false;  // condition 1: every entry is dead
  if (!c.plain) return false;                     // condition 2: plain values only
  if (!c.tile_has_all_versions) return false;     // condition 3: no older versions elsewhere in this table
  if (c.final) return true;                       // conditions 3 and 4: no older run overlaps the tile
  if (c.debts) return false;                      // condition 4: no delete debts
  return c.all_first || c.older_are_covered;      // condition 3: older versions in older runs stay deleted
}

void keep_pages_that_hide(std::span<TilePage> pages) {
  SeqNum oldest_staying = kMaxSeqNum;
  const auto note_stay = [&](const TilePage& page) { oldest_staying = std::min(oldest_staying, page.fence.min_seq); };
  for (const TilePage& page : pages) {
    if (!page.goes) note_stay(page);
  }
  const auto may_hide = [&](const TilePage& page) {
    return !page.fence.single_versions && !has_flag(page.fence, kPageAllFirst) && page.fence.max_seq >= oldest_staying;
  };
  // Repeats until nothing changes, since a page that now stays may keep other pages.
  for (bool changed = true; changed;) {
    changed = false;
    for (TilePage& page : pages) {
      if (!page.goes || !may_hide(page)) continue;
      page.goes = false;
      note_stay(page);
      changed = true;
    }
  }
}

}  // namespace ebbtide
