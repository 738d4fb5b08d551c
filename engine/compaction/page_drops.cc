#include "compaction/page_drops.h"

#include <algorithm>
#include <optional>

#include "base/oldest.h"
#include "base/planted_bug.h"
#include "compaction/key_ranges.h"
#include "table/metadata.h"

namespace ebbtide {
namespace {

constexpr Millis kDeadlineShare = 4;  // after this part of the deadline pages are dropped at any cost

/// The oldest reader that can see an entry with a seq of at least `seq`, now or later.
SeqNum first_view(std::span<const SeqNum> view_seqs, SeqNum visible_seq, SeqNum seq) {
  const auto view = std::lower_bound(view_seqs.begin(), view_seqs.end(), seq);
  return view == view_seqs.end() ? visible_seq : std::min(*view, visible_seq);
}

bool has_stamps(const PageFence& page) { return page.min_delete_key <= page.max_delete_key; }

/// One table of one run.
class TablePlanner {
 public:
  TablePlanner(const PageDropInput& input, const FileMeta& file, const TableReader& table, std::span<const Run> older_runs,
               const Finality& finality)
      : in_(input), file_(file), table_(table), older_runs_(older_runs), finality_(finality) {}

  /// Pages to drop now; empty sets if the drop does not pay yet.
  PageSet plan(Millis* next_look) {
    PageSet set;
    std::uint64_t freed = 0, in_part = table_.replaced_bytes();
    Millis birth = 0;
    for (std::uint32_t first = 0; first < table_.page_count();) first = look_at_tile(first, &set, next_look);
    for (const std::uint32_t p : set.whole) freed += table_.page_fence(p).stored_bytes;
    for (const std::uint32_t p : set.parts) in_part += table_.page_fence(p).stored_bytes;
    if (in_part > file_.data_bytes / kReplacedShare) {
      set.parts.clear();
    } else {
      take_hiding(in_part, &set);
    }
    for (const std::uint32_t p : set.parts) freed += table_.page_fence(p).stored_bytes / 2;
    for (const auto* pages : {&set.whole, &set.parts}) {
      for (const std::uint32_t p : *pages) birth = older(birth, birth_of(table_.page_fence(p), *in_.records, in_.now));
    }
    const bool all_go = set.whole.size() == living_ && file_.stats.range_tombstones == 0;  // then nothing is written
    if (freed == 0 || all_go || freed >= file_.metadata_bytes) return set;
    if (birth <= in_.purge_before) return set;
    if (in_.delete_deadline == 0) return {};
    const Millis due = birth + in_.delete_deadline / kDeadlineShare;
    if (due <= in_.now) return set;
    *next_look = older(*next_look, due);
    return {};
  }

 private:
  struct Candidate {
    std::uint32_t page;
    PageFence fence;
    bool goes = false;  // as a whole
  };

  /// Page numbers from `first` on belong to one tile; answers the first of the next.
  std::uint32_t look_at_tile(std::uint32_t first, PageSet* set, Millis* next_look) {
    std::vector<Candidate> pages;
    std::uint32_t p = first;
    std::uint32_t tile = 0;
    for (; p < table_.page_count(); ++p) {
      const PageFence fence = table_.page_fence(p);
      if (p == first) tile = fence.tile;
      if (fence.tile != tile) break;
      if (fence.entries != 0) pages.push_back({p, fence});
    }
    living_ += pages.size();
    bool any = false;
    for (const Candidate& c : pages) {
      any |= may_be_dead(c.fence);
      if ((c.fence.flags & kPageAllExpire) != 0 && c.fence.max_expiry > in_.now)
        *next_look = older(*next_look, c.fence.max_expiry);
    }
    if (!any) return p;
    range_ = table_.tile_range(tile);
    final_ = finality_.is_final(range_);
    for (Candidate& c : pages) c.goes = may_go(c.fence);
    keep_what_hides(&pages);
    for (const Candidate& c : pages) {
      if (c.goes) {
        set->whole.push_back(c.page);
      } else if (is_edge(c.fence)) {
        set->parts.push_back(c.page);
      } else if (may_hide(c.fence)) {
        hiding_.push_back(c.page);
      }
    }
    return p;
  }

  /// Dead pages that may hide older versions are dropped in part as well, if all of them may.
  void take_hiding(std::uint64_t in_part, PageSet* set) const {
    for (const std::uint32_t p : hiding_) in_part += table_.page_fence(p).stored_bytes;
    if (in_part > file_.data_bytes / kReplacedShare) return;
    const auto edges = static_cast<std::ptrdiff_t>(set->parts.size());
    set->parts.insert(set->parts.end(), hiding_.begin(), hiding_.end());
    std::inplace_merge(set->parts.begin(), set->parts.begin() + edges, set->parts.end());
  }

  [[nodiscard]] bool some_expired(const PageFence& page) const {
    return page.min_expiry <= page.max_expiry && page.min_expiry <= in_.now;
  }
  [[nodiscard]] bool some_covered(const PageFence& page, SeqNum applied_seq) const {
    return has_stamps(page) && in_.records->may_cover(page.min_delete_key, page.max_delete_key, page.min_seq, applied_seq);
  }
  [[nodiscard]] bool may_be_dead(const PageFence& page) const {
    return some_expired(page) || some_covered(page, file_.stats.applied_seq);
  }

  [[nodiscard]] bool all_expired(const PageFence& page) const {
    return some_expired(page) && (page.flags & kPageAllExpire) != 0 && page.max_expiry <= in_.now;
  }
  /// Tests every version with a delete key in [min, max] as old as the page's entries, for all readers that may see them.
  [[nodiscard]] bool all_covered(const PageFence& page, DeleteKey min, DeleteKey max) const {
    if ((page.flags & kPageHasUnstamped) != 0 || !has_stamps(page)) return false;
    return in_.records->covers_all(min, max, page.max_seq, first_view(in_.view_seqs, in_.visible_seq, page.min_seq));
  }

  /// Conditions 1, 2 and 4, and the parts of 3 about older runs and the tile's neighbours.
  [[nodiscard]] bool may_go(const PageFence& page) const {
    if ((page.flags & kPagePlainOnly) == 0 || (page.flags & kPageHasLarge) != 0 || !page.unique_keys) return false;
    const bool expired = all_expired(page);
    const bool covered = !expired && all_covered(page, page.min_delete_key, page.max_delete_key);
    if (!expired && !covered) return false;
    if (final_ || planted(PlantedBug::kDropWhatHides)) return true;
    if ((page.flags & kPageHasDebts) != 0) return false;
    return (page.flags & kPageAllFirst) != 0 || (covered && older_are_covered(page));
  }

  /// Condition 3c.
  [[nodiscard]] bool older_are_covered(const PageFence& page) const {
    if (in_.version->stamp != StampMode::kWriteTime) return false;
    DeleteKey least = page.min_delete_key;
    for (const Run& run : older_runs_) {
      auto file = std::partition_point(run.files.begin(), run.files.end(),
                                       [&](const FileMetaPtr& f) { return f->stats.ends_before(range_.start); });
      for (; file != run.files.end() && (*file)->stats.overlaps(range_); ++file) {
        if ((*file)->stats.unstamped != 0) return false;
        least = std::min(least, (*file)->stats.min_delete_key);
      }
    }
    return all_covered(page, least, page.max_delete_key);
  }

  /// A page stays if an older version of one of its keys may be in another page of the tile that stays.
  static void keep_what_hides(std::vector<Candidate>* pages) {
    SeqNum oldest = kMaxSeqNum;  // in pages that stay
    for (const Candidate& c : *pages) {
      if (!c.goes) oldest = std::min(oldest, c.fence.min_seq);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (Candidate& c : *pages) {
        if (!c.goes || c.fence.single_versions || (c.fence.flags & kPageAllFirst) != 0 || c.fence.max_seq < oldest) continue;
        c.goes = false;
        oldest = std::min(oldest, c.fence.min_seq);
        changed = true;
      }
    }
  }

  /// True if records cover some of it and no partial drop was tried for them yet.
  [[nodiscard]] bool is_due_in_part(const PageFence& page) const {
    if ((page.flags & kPageHasLarge) != 0) return false;
    SeqNum applied = file_.stats.applied_seq;
    if (in_.parts_done) applied = std::max(applied, in_.parts_done(file_.metadata_file));
    return some_covered(page, applied);
  }
  /// True if records cover a part of it.
  [[nodiscard]] bool is_edge(const PageFence& page) const {
    return is_due_in_part(page) && !all_covered(page, page.min_delete_key, page.max_delete_key);
  }
  /// True if records cover all of it, and it stays because older runs may have versions of some of its keys.
  [[nodiscard]] bool may_hide(const PageFence& page) const {
    return !final_ && page.single_versions && (page.flags & kPagePlainOnly) != 0 && is_due_in_part(page) &&
           all_covered(page, page.min_delete_key, page.max_delete_key);
  }

  const PageDropInput& in_;
  const FileMeta& file_;
  const TableReader& table_;
  const std::span<const Run> older_runs_;
  const Finality& finality_;
  std::size_t living_ = 0;  // pages with entries
  KeyRange range_;          // of the tile
  bool final_ = false;      // in all of it
  std::vector<std::uint32_t> hiding_;
};

/// True if any entry of the table may be dead, by its stats.
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
  std::vector<KeyRange> below;  // of the files of older runs
  const std::span<const Run> runs = input.version->runs;
  for (std::size_t r = runs.size(); r-- > 0;) {
    std::optional<Finality> finality;
    for (const FileMetaPtr& file : runs[r].files) {
      if (file->quarantined()) continue;
      if (!is_worth_a_look(input, file->stats, &out.next_look)) continue;
      if (input.busy && input.busy(file->data_file)) {
        out.next_look = older(out.next_look, input.now + 1);
        continue;
      }
      if (!finality) finality.emplace(below);
      TablePlanner planner(input, *file, *input.table(*file), runs.subspan(r + 1), *finality);
      PageSet set = planner.plan(&out.next_look);
      if (set.whole.empty() && set.parts.empty()) continue;
      set.run = runs[r].id;
      set.file = file->data_file;
      drop.pages.push_back(std::move(set));
    }
    for (const FileMetaPtr& file : runs[r].files) below.push_back(range_of(file->stats));
  }
  if (drop.pages.empty()) return out;
  std::reverse(drop.pages.begin(), drop.pages.end());
  out.plan.action = std::move(drop);
  out.plan.reason = Reason::kDropped;
  return out;
}

EntryVerdict judge_entry(const Entry& entry, const RecordSet& records, std::span<const SeqNum> view_seqs, SeqNum visible_seq,
                         bool nothing_older) {
  if (entry.kind != EntryKind::kValue || entry.is_large() || entry.delete_key == kNoStamp) return {};
  const SeqNum view = first_view(view_seqs, visible_seq, entry.seq);
  if (!records.covers(entry.delete_key, entry.seq, view)) return {};
  if (nothing_older || entry.first) return {EntryFate::kGoes, 0};
  // A birth of 0 would be none, and never due.
  return {EntryFate::kBecomesTombstone, std::max<Millis>(1, records.oldest_birth(entry.delete_key, entry.seq, view))};
}

Millis birth_of(const PageFence& page, const RecordSet& records, Millis now) {
  Millis birth = page.min_expiry <= page.max_expiry && page.min_expiry <= now ? page.min_expiry : 0;
  if (has_stamps(page)) {
    birth = older(birth, records.oldest_birth_over(page.min_delete_key, page.max_delete_key, page.min_seq, 0));
  }
  return birth;
}

}  // namespace ebbtide
