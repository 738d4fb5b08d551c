#include "compaction/delete_only.h"

#include <algorithm>

#include "compaction/key_ranges.h"

namespace ebbtide {
namespace {

using Cover = FragmentedRangeTombstones::Cover;

/// Whether readers can tell the cover from a tombstone just above everything in `stats`: no view lies between.
bool hides_from_all(const Cover& cover, const TableStats& stats, const DeleteOnlyInput& input) {
  if (cover.seq <= stats.max_seq || cover.seq > input.visible_seq) return false;
  const auto view = std::lower_bound(input.view_seqs.begin(), input.view_seqs.end(), stats.min_seq);
  return view == input.view_seqs.end() || *view >= cover.seq;
}

/// Covers `file` piece by piece with the range tombstones of one newer run.
struct Covering {
  const DeleteOnlyInput& input;
  const TableStats& stats;
  KeyRange rest;        // of the file's bounds: not covered so far
  Millis youngest = 0;  // birth of the youngest cover in use

  /// Takes what the fragments cover at the front of the rest; false if that is nothing.
  bool advance(const FragmentedRangeTombstones& set) {
    bool any = false;
    while (!is_empty(rest)) {
      const auto* fragment = set.fragment_at(rest.start);
      if (fragment == nullptr) break;
      const auto cover = std::find_if(fragment->covers.begin(), fragment->covers.end(),
                                      [&](const Cover& c) { return hides_from_all(c, stats, input); });
      if (cover == fragment->covers.end()) break;
      youngest = std::max(youngest, cover->birth);
      any = true;
      if (fragment->end.empty() || !end_before(fragment->end, rest.end)) {
        done = true;
        break;
      }
      rest.start = fragment->end;
    }
    return any;
  }
  bool done = false;
};

/// Whether runs newer than `run` cover the file; the birth of the youngest cover that it takes.
bool is_covered(const DeleteOnlyInput& input, std::size_t run, const FileMeta& file, Millis* youngest) {
  Covering covering{input, file.stats, range_of(file.stats)};
  for (bool moved = true; moved && !covering.done;) {
    moved = false;
    for (std::size_t newer = 0; newer < run && !covering.done; ++newer) {
      const auto& files = input.version->runs[newer].files;
      auto at = std::partition_point(files.begin(), files.end(),
                                     [&](const FileMetaPtr& f) { return f->stats.ends_before(covering.rest.start); });
      for (; at != files.end() && !covering.done; ++at) {
        if ((*at)->stats.range_tombstones == 0 || Bytes((*at)->stats.smallest) > Bytes(covering.rest.start)) break;
        if ((*at)->stats.max_seq <= file.stats.max_seq || !covering.advance(*input.tombstones(**at))) break;
        moved = true;
      }
    }
  }
  *youngest = covering.youngest;
  return covering.done;
}

}  // namespace

Plan plan_delete_only(const DeleteOnlyInput& input) {
  const auto& runs = input.version->runs;
  Drop drop;
  std::vector<KeyRange> older;  // what stays in runs older than the one at hand
  for (std::size_t run = runs.size(); run-- > 0;) {
    const Finality below(older);
    PlanInput gone{runs[run].id, {}};
    for (const FileMetaPtr& file : runs[run].files) {
      const KeyRange range = range_of(file->stats);
      const Millis owed = file->stats.oldest_obligation();
      Millis youngest = 0;
      const bool busy = input.busy && input.busy(file->data_file);
      if (!busy && is_covered(input, run, *file, &youngest) && (owed == 0 || owed >= youngest || below.is_final(range))) {
        gone.files.push_back(file->data_file);
      } else {
        older.push_back(range);
      }
    }
    if (!gone.files.empty()) drop.inputs.insert(drop.inputs.begin(), std::move(gone));
  }
  if (drop.inputs.empty()) return {};
  Plan plan;
  plan.action = std::move(drop);
  plan.reason = Reason::kDropped;
  return plan;
}

}  // namespace ebbtide
