#include "compaction/page_drops.h"

#include <algorithm>
#include <optional>

#include "base/oldest.h"
#include "base/planted_bug.h"
#include "compaction/plan_inputs.h"
#include "table/metadata.h"

namespace ebbtide {
namespace {

// After 1 / kDeadlineShare of the deadline, pages are dropped even if a drop costs more than it saves.
constexpr Millis kDeadlineShare = 4;

enum class PageFate : std::uint8_t { kStays, kGoesWhole, kIsEdge, kMayHide };

/// Chooses pages of one table of one run.
class TablePlanner {
 public:
  TablePlanner(const PageDropInput& input, const FileMeta& file, const TableInspector& table, std::span<const Run> older_runs,
               const Finality& finality)
      : in_(input),
        judge_{input.records, input.visible_seq, input.now},
        file_(file),
        table_(table),
        older_runs_(older_runs),
        finality_(finality) {}

  /// Returns the pages to drop now; empty sets if the drop does not pay yet.
  PageSet plan(Millis* next_look) {
    for (std::uint32_t first = 0; first < table_.page_count();) first = look_at_tile(first, next_look);
    PageSet set;
    set.whole = whole_;
    set.parts = pages_in_part();
    if (!pays_now(set, next_look)) return {};
    set.renew_names = in_.purge_before != 0 && oldest_birth_of(set) <= in_.purge_before;
    return set;
  }

 private:
  /// Examines the tile that begins with page `first`. Returns the first page of the next tile.
  std::uint32_t look_at_tile(std::uint32_t first, Millis* next_look) {
    std::vector<TilePage> pages;
    const std::uint32_t tile = table_.page_fence(first).tile;
    std::uint32_t p = first;
    for (; p < table_.page_count(); ++p) {
      const PageFence fence = table_.page_fence(p);
      if (fence.tile != tile) break;
      if (fence.entries != 0) pages.push_back({p, fence});
    }
    living_ += pages.size();
    for (const TilePage& page : pages) note_next_expiry(page.fence, next_look);
    if (std::none_of(pages.begin(), pages.end(), [this](const TilePage& page) { return may_be_dead(page.fence); })) return p;
    const TileBelow below = below_tile(table_.tile_range(tile));
    for (TilePage& page : pages) page.goes = may_go_whole(conditions_of(page.fence, below, judge_));
    keep_pages_that_hide(pages);
    for (const TilePage& page : pages) sort_in(page);
    return p;
  }

  /// Lowers `next_look` to the time at which the page's last entry expires, since the page may then be dropped as a whole.
  void note_next_expiry(const PageFence& page, Millis* next_look) const {
    if ((page.flags & kPageAllExpire) != 0 && page.max_expiry > in_.now) *next_look = older(*next_look, page.max_expiry);
  }
  [[nodiscard]] bool may_be_dead(const PageFence& page) const {
    return some_expired(page, in_.now) || some_covered(page, *in_.records, file_.stats.applied_seq);
  }

  [[nodiscard]] TileBelow below_tile(const KeyRange& tile) const {
    TileBelow below;
    below.final = finality_.is_final(tile) || planted(PlantedBug::kDropWhatHides);
    if (!below.final && in_.version->stamp == StampMode::kWriteTime) below.smallest_stamp = smallest_stamp_below(tile);
    return below;
  }
  /// Returns the smallest stamp of entries in older files that overlap the tile; no value if one of these entries may have no
  /// stamp; kDeleteKeyEnd if no older file overlaps the tile.
  [[nodiscard]] std::optional<DeleteKey> smallest_stamp_below(const KeyRange& tile) const {
    DeleteKey smallest = kDeleteKeyEnd;
    for (const Run& run : older_runs_) {
      auto file = std::partition_point(run.files.begin(), run.files.end(),
                                       [&](const FileMetaPtr& f) { return f->stats.ends_before(tile.start); });
      for (; file != run.files.end() && (*file)->stats.overlaps(tile); ++file) {
        if ((*file)->stats.unstamped != 0) return std::nullopt;
        smallest = std::min(smallest, (*file)->stats.min_delete_key);
      }
    }
    return smallest;
  }

  void sort_in(const TilePage& page) {
    switch (fate_of(page)) {
      case PageFate::kStays:
        break;
      case PageFate::kGoesWhole:
        whole_.push_back(page.number);
        break;
      case PageFate::kIsEdge:
        edges_.push_back(page.number);
        break;
      case PageFate::kMayHide:
        hiding_.push_back(page.number);
        break;
    }
  }
  [[nodiscard]] PageFate fate_of(const TilePage& page) const {
    if (page.goes) return PageFate::kGoesWhole;
    if (!is_due_in_part(page.fence)) return PageFate::kStays;
    if (!all_covered(page.fence, judge_)) return PageFate::kIsEdge;
    // True if the page stays only because older runs may have versions of its keys.
    const bool only_older_runs_keep_it = page.fence.single_versions && (page.fence.flags & kPagePlainOnly) != 0;
    return only_older_runs_keep_it ? PageFate::kMayHide : PageFate::kStays;
  }
  /// Returns true if records cover some entries of the page and no partial drop was tried for these records yet.
  [[nodiscard]] bool is_due_in_part(const PageFence& page) const {
    if ((page.flags & kPageHasLarge) != 0) return false;
    SeqNum applied = file_.stats.applied_seq;
    if (in_.parts_done) applied = std::max(applied, in_.parts_done(file_.metadata_file));
    return some_covered(page, *in_.records, applied);
  }

  /// Returns the edges and the pages that may hide older versions, if the replaced pages of the table then stay within their
  /// share (kReplacedShare). If not, returns only the edges; if these alone exceed the share, returns nothing.
  [[nodiscard]] std::vector<std::uint32_t> pages_in_part() const {
    std::vector<std::uint32_t> pages;
    std::uint64_t replaced = table_.replaced_bytes();
    const std::uint64_t most = file_.data_bytes / kReplacedShare;
    for (const auto* kind : {&edges_, &hiding_}) {
      replaced += bytes_of(*kind);
      if (replaced > most) break;
      const auto middle = static_cast<std::ptrdiff_t>(pages.size());
      pages.insert(pages.end(), kind->begin(), kind->end());
      std::inplace_merge(pages.begin(), pages.begin() + middle, pages.end());
    }
    return pages;
  }
  [[nodiscard]] std::uint64_t bytes_of(const std::vector<std::uint32_t>& pages) const {
    std::uint64_t bytes = 0;
    for (const std::uint32_t p : pages) bytes += table_.page_fence(p).stored_bytes;
    return bytes;
  }

  /// Returns true if the drop pays. A drop of all pages writes nothing, and always pays. Any other drop writes new metadata. It
  /// pays if it frees as many bytes, where a replaced page counts half. It also pays after a quarter of the deadline, or if
  /// entries died by `purge_before`.
  bool pays_now(const PageSet& set, Millis* next_look) const {
    const std::uint64_t freed = bytes_of(set.whole) + bytes_of(set.parts) / 2;
    const bool all_go = set.whole.size() == living_ && file_.stats.range_tombstones == 0;
    if (freed == 0 || all_go || freed >= file_.metadata_bytes) return true;
    const Millis birth = oldest_birth_of(set);
    if (birth <= in_.purge_before) return true;
    if (in_.delete_deadline == 0) return false;
    const Millis due = birth + in_.delete_deadline / kDeadlineShare;
    if (due <= in_.now) return true;
    *next_look = older(*next_look, due);
    return false;
  }
  [[nodiscard]] Millis oldest_birth_of(const PageSet& set) const {
    Millis birth = 0;
    for (const auto* pages : {&set.whole, &set.parts}) {
      for (const std::uint32_t p : *pages) birth = older(birth, birth_of(table_.page_fence(p), *in_.records, in_.now));
    }
    return birth;
  }

  const PageDropInput& in_;
  const DropJudge judge_;
  const FileMeta& file_;
  const TableInspector& table_;
  const std::span<const Run> older_runs_;
  const Finality& finality_;
  std::size_t living_ = 0;  // number of pages with entries
  std::vector<std::uint32_t> whole_, edges_, hiding_;
};

/// Returns true if any entry of the table may be dead, according to its stats. Lowers `next_look` to the first expiry still to
/// come.
bool is_worth_a_look(const PageDropInput& input, const TableStats& stats, Millis* next_look) {
  if (stats.entries == 0) return false;
  if (stats.min_expiry > input.now) *next_look = older(*next_look, stats.min_expiry);
  if (stats.min_expiry != 0 && stats.min_expiry <= input.now) return true;
  return stats.min_delete_key <= stats.max_delete_key &&
         input.records->may_cover(stats.min_delete_key, stats.max_delete_key, stats.min_seq, stats.applied_seq);
}

}  // namespace

PageDrops plan_page_drops(const PageDropInput& input) {
  PageDrops out;
  Drop drop;
  const std::span<const Run> runs = input.version->runs;
  if (input.records->empty() && input.version->sums().min_expiry == 0) return out;
  for (std::size_t r = runs.size(); r-- > 0;) {
    std::optional<Finality> finality;
    for (const FileMetaPtr& file : runs[r].files) {
      if (file->quarantined()) continue;
      if (!is_worth_a_look(input, file->stats, &out.next_look)) continue;
      if (input.busy && input.busy(file->data_file)) {
        out.next_look = older(out.next_look, input.now + 1);
        continue;
      }
      if (!finality) finality.emplace(finality_below(*input.version, r));
      const TableInspector* const table = input.table(*file);
      if (table == nullptr) {
        out.next_look = older(out.next_look, input.now + 1);
        continue;
      }
      TablePlanner planner(input, *file, *table, runs.subspan(r + 1), *finality);
      PageSet set = planner.plan(&out.next_look);
      if (set.whole.empty() && set.parts.empty()) continue;
      set.run = runs[r].id;
      set.file = file->data_file;
      drop.pages.push_back(std::move(set));
    }
  }
  if (drop.pages.empty()) return out;
  std::reverse(drop.pages.begin(), drop.pages.end());
  out.plan.action = std::move(drop);
  out.plan.reason = Reason::kDropped;
  return out;
}

EntryVerdict judge_entry(const Entry& entry, const RecordSet& records, SeqNum visible_seq, bool nothing_older) {
  if (!entry.is_plain() || entry.is_large() || entry.delete_key == kNoStamp) return {};
  if (!records.covers(entry.delete_key, entry.seq, visible_seq)) return {};
  if (nothing_older || entry.first) return {EntryFate::kGoes, 0};
  // At least 1, since a birth of 0 means "none": such a tombstone would never be due.
  return {EntryFate::kBecomesTombstone, std::max<Millis>(1, records.oldest_birth(entry.delete_key, entry.seq, visible_seq))};
}

Millis birth_of(const PageFence& page, const RecordSet& records, Millis now) {
  const Millis birth = some_expired(page, now) ? page.min_expiry : 0;
  if (page.min_delete_key > page.max_delete_key) return birth;
  return older(birth, records.oldest_birth_over(page.min_delete_key, page.max_delete_key, page.min_seq, 0));
}

}  // namespace ebbtide
