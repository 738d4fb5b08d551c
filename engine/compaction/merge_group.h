// A group: input files that are merged together, into one run. A job makes groups, group_cuts.h cuts them into parts, and
// part_builder.h builds the input of each part.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compaction/key_ranges.h"
#include "compaction/partitions.h"
#include "compaction/subranges.h"

namespace ebbtide {

/// The ends of a slice's output, and the oldest pending births of the keys there, if they are known.
struct SliceEnds {
  std::string first;  ///< its first key
  std::string last;   ///< the successor of its last key
  std::optional<Millis> pending_at_first{}, pending_at_last{};
};

/// The slice beside a group that has entries outside the slice. A range tombstone of the group that reaches into the slice is cut
/// at the ends of the slice's output; without `ends` it is not cut there.
struct SliceBorder {
  KeyRange slice;
  std::optional<SliceEnds> ends{};
};

struct MergeGroup {
  FileGroup files;
  RunId run = 0;                        ///< target of the output
  const Finality* finality = nullptr;   ///< of that run; outlives the merge
  bool has_below = false;               ///< outputs end where files of the run below do
  std::optional<SliceBorder> border{};  ///< of groups outside a slice
  std::optional<KeyRange> hole{};       ///< entries in this range are left out: the slice within a file that is not divided
  std::vector<Partition> partitions{};  ///< at least one, once the group is divided
};

}  // namespace ebbtide
