// Merges groups: cuts them into parts, runs the parts in parallel, and collects what the parts have written.
//
//   Call open(), then run() once or more, then finish().
#pragma once

#include <deque>
#include <vector>

#include "compaction/group_cuts.h"
#include "compaction/merge_group.h"
#include "compaction/merge_part.h"
#include "compaction/part_builder.h"

namespace ebbtide {

class GroupMerge {
 public:
  /// The arguments must outlive this object.
  GroupMerge(const Version& version, const CompactionContext& context, const CompactionEnv& env, const PlanInputs& inputs);

  /// Opens the inputs of groups. Called once.
  Status open(std::span<const MergeGroup> groups) { return tables_.open(groups, env_); }
  /// Merges groups whose inputs are open. Returns the error of the first part that failed.
  Status run(std::vector<MergeGroup> groups);
  /// Returns the first and the last key that the parts have written so far; no value if they have written none. Slice jobs cut
  /// range tombstones at these keys.
  [[nodiscard]] std::optional<SliceEnds> output_ends() const;
  /// Syncs the directory, and adds outputs and counts to `result`. Adds outputs and the key space to the result's edit, which has
  /// the moved files already. If a part or the sync has failed, unlinks the outputs and returns the error. Returns kAborted only
  /// if no part has another error.
  Status finish(CompactionResult* result);

 private:
  struct Part {
    const MergeGroup* group;
    KeyRange range;
    ReadCounters counters{};
    MergePartResult result{};
  };

  const Version& version_;
  const CompactionContext& context_;
  const CompactionEnv& env_;
  const Judgement judgement_;
  const NameDebts names_;
  OpenTables tables_;
  const GroupCuts cuts_;
  const PartBuilder builder_;
  std::deque<MergeGroup> groups_;  // a deque, since parts point to its elements
  std::deque<Part> parts_;
};

}  // namespace ebbtide
