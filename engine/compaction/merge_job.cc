// Input files that overlap form a group (subranges.h). The actions treat a group of a single file differently:
//
//   Merge     moves the file if none of its entries could be dropped (may_move), else merges it
//   Move      like Merge; each file of a Move is a group of a single file
//   Rewrite   merges the file
//
// All other groups are merged into the target. Adjacent small groups become one group, so that they share output files.
#include "compaction/merge_job.h"

#include <algorithm>

#include "compaction/group_merge.h"
#include "compaction/plan_edit.h"
#include "tree/frozen.h"

namespace ebbtide {
namespace {

class MergeJob {
 public:
  MergeJob(const Plan& plan, const Version& version, const CompactionContext& context, const CompactionEnv& env)
      : plan_(plan), version_(version), context_(context), env_(env) {}

  Result<CompactionResult> run() {
    TRY_ASSIGN(inputs, resolve_inputs(plan_, version_));
    inputs_ = std::move(inputs);
    if (version_.has_quarantined()) frozen_ = frozen_ranges(version_.shape());
    TRY(sort_out(overlapping_groups(inputs_.files)));

    CompactionResult result;
    result.files_moved = moved_.size();
    remove_inputs(&result.edit);
    GroupMerge merge(version_, context_, env_, inputs_);
    TRY(merge.open(merged_));
    (void)merge.run(std::move(merged_));  // finish() returns the error
    TRY(merge.finish(&result));
    finish_edit(plan_, version_, context_, inputs_, &result.edit);
    return result;
  }

 private:
  /// Decides for each group whether its file moves or the group is merged.
  Status sort_out(std::vector<FileGroup> groups) {
    bool joinable = false;  // true if the next group can join the last element of merged_
    for (FileGroup& group : groups) {
      if (!fits_target(group.range)) {
        return Status::invalid_argument("a plan's output would overlap files that stay in run " + std::to_string(inputs_.target));
      }
      const bool moves = group.files.size() == 1 && may_move(group.files.front());
      if (moves) {
        if (group.files.front().run_id != inputs_.target) moved_.push_back(std::move(group.files.front()));
      } else if (joinable && may_join(merged_.back().files, group)) {
        join(&merged_.back().files, std::move(group));
      } else {
        merged_.push_back({std::move(group), inputs_.target, &inputs_.finality, true});
      }
      joinable = !moves;
    }
    return Status::ok();
  }

  /// Returns true if no file that stays in the target run overlaps the range.
  [[nodiscard]] bool fits_target(const KeyRange& range) const { return inputs_.new_run || inputs_.target_gaps.is_final(range); }

  [[nodiscard]] bool may_move(const InputFile& file) const {
    if (std::holds_alternative<Rewrite>(plan_.action)) return false;
    if (!has_pending_deletes(*file.meta)) return true;
    // The keys of the file's tombstones are unknown. So the file moves only if no part of its range is final, since a merge could
    // drop tombstones there.
    const auto pieces = inputs_.finality.pieces(file.range);
    return std::none_of(pieces.begin(), pieces.end(), [](const auto& piece) { return piece.second; });
  }
  [[nodiscard]] bool has_pending_deletes(const FileMeta& file) const {
    const TableStats& stats = file.stats;
    const bool expired = stats.min_expiry != 0 && stats.min_expiry <= context_.now;
    return stats.tombstones + stats.range_tombstones + stats.debts != 0 || file.lingering_birth != 0 || expired ||
           records_birth(stats, *version_.records) != 0;
  }

  [[nodiscard]] bool may_join(const FileGroup& last, const FileGroup& next) const {
    const KeyRange both{last.range.start, next.range.end};
    return last.bytes < context_.settings.file_size && fits_target(both) && frozen_at(frozen_, both) == nullptr;
  }
  static void join(FileGroup* last, FileGroup next) {
    last->range.end = next.range.end;
    last->bytes += next.bytes;
    for (InputFile& file : next.files) last->files.push_back(std::move(file));
  }

  /// Removes the inputs from their runs, and adds moved files to the target run.
  void remove_inputs(TreeEdit* edit) const {
    for (const MergeGroup& group : merged_) {
      for (const InputFile& file : group.files.files) edit->removed_files.emplace_back(file.run_id, file.meta->data_file);
    }
    for (const InputFile& file : moved_) {
      edit->removed_files.emplace_back(file.run_id, file.meta->data_file);
      edit->added_files.emplace_back(inputs_.target, *file.meta);
    }
  }

  const Plan& plan_;
  const Version& version_;
  const CompactionContext& context_;
  const CompactionEnv& env_;
  PlanInputs inputs_;
  std::vector<KeyRange> frozen_;
  std::vector<InputFile> moved_;
  std::vector<MergeGroup> merged_;
};

}  // namespace

Result<CompactionResult> execute_merge(const Plan& plan, const Version& version, const CompactionContext& context,
                                       const CompactionEnv& env) {
  return MergeJob(plan, version, context, env).run();
}

}  // namespace ebbtide
