#include "compaction/delete_only.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/oldest.h"
#include "compaction/key_ranges.h"

namespace ebbtide {
namespace {

using Cover = FragmentedRangeTombstones::Cover;

/// Returns the newest range tombstone of the fragment that every future reader sees. Returns null unless it is newer than every
/// entry of the file with these `stats`.
const Cover* hides_from_all(const FragmentedRangeTombstones& set, const FragmentedRangeTombstones::Fragment& fragment,
                            const TableStats& stats, const DeleteOnlyInput& input) {
  const Cover* const cover = set.newest_cover(fragment, input.visible_seq);
  return cover != nullptr && cover->seq > stats.max_seq ? cover : nullptr;
}

/// Covers `file`, part by part, with the range tombstones of one newer run after another.
struct Covering {
  const DeleteOnlyInput& input;
  const TableStats& stats;
  KeyRange rest;        // the part of the file's range that is not covered so far
  Millis youngest = 0;  // birth of the youngest range tombstone used so far

  /// Moves the start of `rest` to the end of the fragments of `set` that cover it. Returns false if none covers the start.
  bool advance(const FragmentedRangeTombstones& set) {
    bool any = false;
    while (!is_empty(rest)) {
      const auto* fragment = set.fragment_at(rest.start);
      if (fragment == nullptr) break;
      const Cover* const cover = hides_from_all(set, *fragment, stats, input);
      if (cover == nullptr) break;
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

/// For each run, the files that have range tombstones: only such files can cover other files, and most trees have few.
using RangedFiles = std::vector<std::vector<FileMetaPtr>>;

RangedFiles ranged_files(const Version& version) {
  RangedFiles ranged;
  for (const Run& run : version.runs) {
    auto& files = ranged.emplace_back();
    std::copy_if(run.files.begin(), run.files.end(), std::back_inserter(files),
                 [](const FileMetaPtr& file) { return file->stats.range_tombstones != 0; });
  }
  return ranged;
}

/// Returns whether range tombstones of runs newer than `run` cover the file. Sets `youngest` to the birth of the youngest of
/// them.
bool is_covered(const DeleteOnlyInput& input, const RangedFiles& ranged, std::size_t run, const FileMeta& file,
                Millis* youngest) {
  Covering covering{input, file.stats, range_of(file.stats)};
  for (bool moved = true; moved && !covering.done;) {
    moved = false;
    for (std::size_t newer = 0; newer < run && !covering.done; ++newer) {
      const auto& files = ranged[newer];
      auto at = std::partition_point(files.begin(), files.end(),
                                     [&](const FileMetaPtr& f) { return f->stats.ends_before(covering.rest.start); });
      for (; at != files.end() && !covering.done; ++at) {
        if (Bytes((*at)->stats.smallest) > Bytes(covering.rest.start)) break;
        if ((*at)->stats.max_seq <= file.stats.max_seq || !covering.advance(*input.tombstones(**at))) break;
        moved = true;
      }
    }
  }
  *youngest = covering.youngest;
  return covering.done;
}

/// Returns, for each run, the covered files, each with the birth of the youngest range tombstone that covers it.
std::vector<std::map<FileNum, Millis>> covered_files(const DeleteOnlyInput& input) {
  const auto& runs = input.version->runs;
  const RangedFiles ranged = ranged_files(*input.version);
  std::vector<std::map<FileNum, Millis>> covered(runs.size());
  bool any_newer = false;
  for (std::size_t run = 0; run < runs.size(); any_newer |= !ranged[run].empty(), ++run) {
    if (!any_newer) continue;
    for (const FileMetaPtr& file : runs[run].files) {
      Millis youngest = 0;
      if (is_covered(input, ranged, run, *file, &youngest) && !(input.busy && input.busy(file->data_file))) {
        covered[run].emplace(file->data_file, youngest);
      }
    }
  }
  return covered;
}

}  // namespace

Plan plan_delete_only(const DeleteOnlyInput& input) {
  const auto& runs = input.version->runs;
  const std::vector<std::map<FileNum, Millis>> covered = covered_files(input);
  if (std::all_of(covered.begin(), covered.end(), [](const auto& files) { return files.empty(); })) return {};
  Drop drop;
  std::vector<KeyRange> staying;  // ranges of the files that stay in older runs
  for (std::size_t run = runs.size(); run-- > 0;) {
    const bool any = !covered[run].empty();
    const Finality below(any ? staying : std::vector<KeyRange>());
    PlanInput gone{runs[run].id, {}};
    for (const FileMetaPtr& file : runs[run].files) {
      KeyRange range = range_of(file->stats);
      const auto cover = covered[run].find(file->data_file);
      // Includes births of records that may cover entries of the file. Older runs may have older versions of these entries,
      // which must be purged by the record's deadline. After the drop, perhaps no file shows that deadline.
      const Millis pending = older(file->stats.oldest_obligation(), records_birth(file->stats, *input.version->records));
      if (cover != covered[run].end() && (pending == 0 || pending >= cover->second || below.is_final(range))) {
        gone.files.push_back(file->data_file);
      } else {
        staying.push_back(std::move(range));
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
