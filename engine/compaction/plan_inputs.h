// Checks a plan against its version and finds its input files, the target of the output, and the older files that the output
// overlaps.
#pragma once

#include <vector>

#include "compaction/subranges.h"
#include "tree/plan.h"
#include "version/version.h"

namespace ebbtide {

struct PlanInputs {
  std::vector<InputFile> files;
  RunId target = 0;  ///< the run that gets the output; an unused id if the run is new
  bool new_run = false;
  int level = 0;          ///< level of the new run
  RunId before = 0;       ///< the run in front of which the new run is added (TreeEdit::AddedRun::before)
  std::size_t place = 0;  ///< runs from this index on are older than the output, except the target itself
  // The next three members are exact only within the smallest range that contains all inputs and, for a Slice, the slice.
  Finality finality;
  Finality target_gaps;            ///< is_final() is true for ranges in which no file of the target run stays
  std::vector<FileMetaPtr> below;  ///< files that stay in the newest older run that the plan does not take as a whole
};

/// Resolves a plan. For a Drop only `files` is set. Returns kInvalidArgument, with the reason, if
///   * a run or file is not in the version, or a quarantined file would be read, moved or changed;
///   * the output would overlap files that stay in the target;
///   * a file would be moved below older entries, or above newer entries, of its keys that are not in the plan;
///   * a file in a Slice's range is left out, in a run from the Slice's newest run to its target.
Result<PlanInputs> resolve_inputs(const Plan& plan, const Version& version);

/// Returns the Finality for files in run number `run`: its older files are the files of all older runs.
Finality finality_below(const Version& version, std::size_t run);
/// Returns the Finality for entries newer than all files, for keys in the range.
Finality finality_of(const Version& version, const KeyRange& range);

}  // namespace ebbtide
