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

/// The ends of a slice's output, and the oldest pending births of the keys at these ends, if known.
struct SliceEnds {
  std::string first;  ///< the output's first key
  std::string last;   ///< the successor of the output's last key
  std::optional<Millis> pending_at_first{}, pending_at_last{};
};

/// A slice beside which a group has entries. A range tombstone of the group that reaches into the slice is cut at the ends of the
/// slice's output; without `ends` it is not cut there.
struct SliceBorder {
  KeyRange slice;
  std::optional<SliceEnds> ends{};
};

struct MergeGroup {
  FileGroup files;
  RunId run = 0;                        ///< the run that gets the output
  const Finality* finality = nullptr;   ///< the finality of that run; must outlive the merge
  bool has_below = false;               ///< true if the run has a run below; outputs then end where files of that run end
  std::optional<SliceBorder> border{};  ///< set for groups outside a slice
  std::optional<KeyRange> hole{};       ///< the slice within a file that is not divided: entries in this range are left out
  std::vector<Partition> partitions{};  ///< set by GroupCuts::divide(), which adds at least one
};

}  // namespace ebbtide
