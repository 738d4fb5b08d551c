// What a shape becomes when a plan is done, and the rules that everybody who carries plans out shares: the executor (through
// version edits), the simulator and the tests.
//
// Runs that a plan empties go, with one exception: the oldest run of a level below 0 stays as a placeholder, files or not. Its id
// is what other jobs, running at the same time, may have as their target.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <engine/result.h>
#include "tree/plan.h"
#include "tree/shape.h"

namespace ebbtide {

/// A file that a plan wrote. Only a Slice writes into more than one run (the clipped younger files); a Rewrite into its file's.
struct PlanOutput {
  RunId run = 0;  ///< 0 = the plan's target, or the run of the rewritten file; of a Drop's pages, always said
  FileShape file;
};

/// The shape after `plan`, whose outputs are `outputs` in any order (none for a Move or Drop; a moved file keeps its number). A
/// new target run gets the id next_run_id(shape). Cursors move on (cursor_after). kInvalidArgument, saying what does not fit: an
/// input that is not there, outputs that overlap what stays.
Result<TreeShape> apply(TreeShape shape, const Plan& plan, const std::vector<PlanOutput>& outputs);

/// Where a plan's new run of `level` belongs: the run that it is placed just before (newer than), 0 = behind all. That is the
/// place of the oldest input run, or the nearest one to it that keeps levels in order: after it the newest of its level, before it
/// the oldest.
RunId place_new_run(const TreeShape& shape, const std::vector<PlanInput>& inputs, int level);

/// The runs that go because `plan` takes all their files: see the top of this file.
std::vector<RunId> removed_runs(const TreeShape& shape, const Plan& plan);

/// Marks the plan's inputs as taking part in a running job, or as free again.
void mark_busy(TreeShape* shape, const Plan& plan, bool busy);

/// Where round robin goes on after `plan`: source level, and the end of the last file that it takes from there; none if the plan
/// takes nothing down.
std::optional<std::pair<int, std::string>> cursor_after(const TreeShape& shape, const Plan& plan);

/// An id above all runs of the shape.
RunId next_run_id(const TreeShape& shape);

}  // namespace ebbtide
