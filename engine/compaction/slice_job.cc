// A Slice is one group, cut to its range, whose output goes into the target. Each input that straddles an end of the range also
// forms a group of its own. That group writes the file's entries outside the range into the file's run. The finality of such a
// group depends on the files of all older runs. The slice's other inputs are among these files, since their entries outside the
// range stay in their runs. So it differs from the finality of the slice.
//
// If a straddling file has range tombstones, the groups outside the slice are merged last. A range tombstone that reaches into
// the slice is cut where the slice's output begins or ends, not at the end of the range. The end of the range is often a key that
// the slice purges, and no cut tombstone may keep that key (compaction/name_debts.h). If the slice has no output, no range
// tombstone is cut.
#include "compaction/slice_job.h"

#include <algorithm>
#include <map>
#include <set>

#include "compaction/group_merge.h"
#include "compaction/plan_edit.h"

namespace ebbtide {
namespace {

class SliceJob {
 public:
  SliceJob(const Plan& plan, const Version& version, const CompactionContext& context, const CompactionEnv& env)
      : plan_(plan), range_(std::get<Slice>(plan.action).range), version_(version), context_(context), env_(env) {}

  Result<CompactionResult> run() {
    TRY_ASSIGN(inputs, resolve_inputs(plan_, version_));
    inputs_ = std::move(inputs);
    GroupMerge merge(version_, context_, env_, inputs_);
    const MergeGroup within = group_within();
    TRY(merge.open({&within, 1}));
    if (!cuts_range_tombstones()) {
      std::vector<MergeGroup> all = groups_outside(std::nullopt);
      all.insert(all.begin(), within);
      (void)merge.run(std::move(all));  // finish() returns the error
    } else if (merge.run({within}).is_ok()) {
      (void)merge.run(groups_outside(tombstone_ends(merge)));
    }

    CompactionResult result;
    for (const InputFile& file : within.files.files) result.edit.removed_files.emplace_back(file.run_id, file.meta->data_file);
    TRY(merge.finish(&result));
    finish_edit(plan_, version_, context_, inputs_, &result.edit);
    return result;
  }

 private:
  /// Returns the group of the slice itself: all inputs, cut to the range.
  [[nodiscard]] MergeGroup group_within() const {
    FileGroup files{range_, inputs_.files, 0};
    for (const InputFile& file : files.files) files.bytes += file.meta->data_bytes;
    std::sort(files.files.begin(), files.files.end(),
              [](const InputFile& a, const InputFile& b) { return a.range.start < b.range.start; });
    return {std::move(files), inputs_.target, &inputs_.finality, true};
  }

  /// Returns true if a straddling file has range tombstones. The groups outside then wait for the ends of the slice's output.
  [[nodiscard]] bool cuts_range_tombstones() const {
    return std::any_of(inputs_.files.begin(), inputs_.files.end(), [&](const InputFile& file) {
      return file.meta->stats.range_tombstones != 0 && !outside_of(file.range, range_).empty();
    });
  }
  /// Returns the keys at which range tombstones from outside are cut, once the slice is merged.
  [[nodiscard]] std::optional<SliceEnds> tombstone_ends(const GroupMerge& merge) const {
    // The range of a slice with the reason kScrub is frozen: files are cut at its ends, so that no output reaches into it.
    if (plan_.reason == Reason::kScrub) return SliceEnds{range_.start, range_.end, {}, {}};
    return merge.output_ends();
  }

  /// Returns the groups for the entries outside the slice. Without `ends`, no range tombstone is cut.
  std::vector<MergeGroup> groups_outside(const std::optional<SliceEnds>& ends) {
    std::vector<MergeGroup> groups;
    for (const InputFile& file : inputs_.files) {
      const std::vector<KeyRange> rests = outside_of(file.range, range_);
      MergeGroup group{{{}, {file}, file.meta->data_bytes}, file.run_id};
      group.border = {range_, ends};
      if (!rests.empty()) group.finality = finality_outside(file.run);
      // Range tombstones that are not cut must stay in one file.
      if (!ends && rests.size() == 2 && file.meta->stats.range_tombstones != 0) {
        group.files.range = file.range;
        group.hole = range_;
        groups.push_back(std::move(group));
        continue;
      }
      for (const KeyRange& rest : rests) {
        groups.push_back(group);
        groups.back().files.range = rest;
      }
    }
    return groups;
  }

  /// Returns the Finality of entries outside the slice in run number `run`. All files of older runs are older; of the slice's
  /// inputs, only their parts outside the slice count. The first call for a run takes O(files).
  const Finality* finality_outside(std::size_t run) {
    const auto known = finality_.find(run);
    if (known != finality_.end()) return &known->second;
    std::set<FileNum> cut;
    for (const InputFile& file : inputs_.files) cut.insert(file.meta->data_file);
    std::vector<KeyRange> below;
    for (std::size_t older = run + 1; older < version_.runs.size(); ++older) {
      for (const FileMetaPtr& file : version_.runs[older].files) {
        const KeyRange whole = range_of(file->stats);
        if (cut.count(file->data_file) == 0) {
          below.push_back(whole);
        } else {
          for (KeyRange& rest : outside_of(whole, range_)) below.push_back(std::move(rest));
        }
      }
    }
    return &finality_.emplace(run, Finality(std::move(below))).first->second;
  }

  const Plan& plan_;
  const KeyRange range_;
  const Version& version_;
  const CompactionContext& context_;
  const CompactionEnv& env_;
  PlanInputs inputs_;
  std::map<std::size_t, Finality> finality_;  // finality of entries outside the slice, by run; groups point into this map
};

}  // namespace

Result<CompactionResult> execute_slice(const Plan& plan, const Version& version, const CompactionContext& context,
                                       const CompactionEnv& env) {
  return SliceJob(plan, version, context, env).run();
}

}  // namespace ebbtide
