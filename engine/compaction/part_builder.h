// Builds the input of one part of a merge: its sources, range tombstones, and the keys at which its files end.
#pragma once

#include "compaction/merge_group.h"
#include "compaction/merge_part.h"
#include "compaction/open_tables.h"
#include "compaction/plan_inputs.h"

namespace ebbtide {

class PartBuilder {
 public:
  /// The arguments must outlive this object and the parts. `readahead_bytes`: readahead of all sources of a part together.
  PartBuilder(const Version& version, const CompactionContext& context, const PlanInputs& inputs, const OpenTables& tables,
              std::size_t readahead_bytes)
      : version_(version), context_(context), inputs_(inputs), tables_(tables), readahead_bytes_(readahead_bytes) {}

  /// Returns the part of `group` in `range`. The part's reads are counted in `counters`.
  [[nodiscard]] MergePart build(const MergeGroup& group, const KeyRange& range, ReadCounters* counters) const;

 private:
  void add_sources(const MergeGroup& group, ReadCounters* counters, MergePart* part) const;
  void add_cuts(const MergeGroup& group, MergePart* part) const;

  const Version& version_;
  const CompactionContext& context_;
  const PlanInputs& inputs_;
  const OpenTables& tables_;
  const std::size_t readahead_bytes_;
};

/// Sets `tombstone_range` of `part`, and the pending births at its ends. The range is the part's range, extended into the slice
/// up to the first or last key of the slice's output. Reads only `range` of `part`.
void clip_at_slice(const SliceBorder& border, MergePart* part);

}  // namespace ebbtide
