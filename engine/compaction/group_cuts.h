// Cuts groups in two ways: into partitions, at whose ends output files may end (compaction/partitions.h), and into parts, each
// merged by one thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compaction/histogram.h"
#include "compaction/merge_group.h"
#include "compaction/open_tables.h"
#include "compaction/plan_inputs.h"

namespace ebbtide {

class GroupCuts {
 public:
  /// The arguments must outlive this object. The tables of a group must be open before divide() and parts_of() are called.
  GroupCuts(const Version& version, const CompactionContext& context, const CompactionEnv& env, const PlanInputs& inputs,
            const OpenTables& tables);

  /// Sets the group's partitions.
  void divide(MergeGroup* group) const;
  /// Returns the ranges of the parts, in key order; together they are the group's range. Requires divide().
  [[nodiscard]] std::vector<KeyRange> parts_of(const MergeGroup& group) const;
  /// For global ranges: the common prefix of the tree's keys and the inputs' keys. Not set for other partitionings.
  [[nodiscard]] const std::optional<std::string>& key_space() const { return key_space_; }

 private:
  [[nodiscard]] StreamingHistogram bytes_of(const MergeGroup& group, const KeySpace& space) const;
  [[nodiscard]] std::size_t count_of_parts(const MergeGroup& group) const;
  [[nodiscard]] std::vector<KeyRange> aligned(std::vector<KeyRange> ranges) const;

  const CompactionContext& context_;
  const CompactionEnv& env_;
  const PlanInputs& inputs_;
  const OpenTables& tables_;
  std::optional<std::string> key_space_;
};

}  // namespace ebbtide
