// Checks a plan against its version and resolves it: input files, target of the output, files below it.
#pragma once

#include <vector>

#include "compaction/subranges.h"
#include "tree/plan.h"
#include "version/version.h"

namespace ebbtide {

struct PlanInputs {
  std::vector<InputFile> files;
  RunId target = 0;  ///< the run that gets the output; a fresh id if it is new
  bool new_run = false;
  int level = 0;          ///< of the new run
  RunId before = 0;       ///< the new run's place: as TreeEdit::AddedRun
  std::size_t place = 0;  ///< runs from this index on are older than the output, except the target itself
  Finality finality;
  Finality target_gaps;            ///< is_final() where no file of the target run stays
  std::vector<FileMetaPtr> below;  ///< files that stay in the first run below that has such files
};

/// For a Drop only `files` is set. kInvalidArgument, with the reason, if
///   * a run or file is not in the version, or a quarantined file would be read, moved or changed;
///   * the output would overlap files that stay in the target;
///   * entries would end up below older entries of their keys, because a run between input and output is left out. For a Slice,
///     because a file in its range is left out, in a run from its newest to its target.
Result<PlanInputs> resolve_inputs(const Plan& plan, const Version& version);

/// The Finality of files in run number `run`: every file of an older run is below.
Finality finality_below(const Version& version, std::size_t run);

}  // namespace ebbtide
