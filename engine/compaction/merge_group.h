// A group: input files that are merged together, into one run. A job makes groups, group_cuts.h cuts groups into parts, and
// part_builder.h builds the input of each part.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compaction/key_ranges.h"
#include "compaction/partitions.h"
#include "compaction/subranges.h"

namespace ebbtide {

/// The first and the last key of a slice's output, and the oldest births of their pending deletes, if known.
struct SliceEnds {
  std::string first;  ///< the output's first key
  std::string last;   ///< the successor of the output's last key
  std::optional<Millis> pending_at_first{}, pending_at_last{};
};

/// The merge slice that a group borders on. Range tombstones of the group extend into the slice, up to the first or last key of
/// the slice's output. Without `ends` they are not cut, and extend through the whole slice.
struct SliceBorder {
  KeyRange slice;
  std::optional<SliceEnds> ends{};
};

struct MergeGroup {
  FileGroup files;
  RunId run = 0;                        ///< the run that gets the output
  const Finality* finality = nullptr;   ///< says which keys are final for the output; must outlive the merge
  bool has_below = false;               ///< true if there is an older run: outputs end where files of the next older run end
  std::optional<SliceBorder> border{};  ///< the merge slice next to this group, if there is one
  std::optional<KeyRange> hole{};       ///< the slice in the middle of the group's only file; the output does not have the slice
  std::vector<Partition> partitions{};  ///< set by GroupCuts::divide(), which adds at least one partition
};

}  // namespace ebbtide
