// Computes the shape after a plan. The executor (through version edits), the simulator and the tests share these rules.
//
// A run that a plan empties is removed, except the oldest run of a level from 1 on: it stays as a placeholder, because other
// running jobs may have its id as their target.
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
  RunId run = 0;  ///< 0 = the plan's target, or the run of the rewritten file; always set for a Drop's pages
  FileShape file;
};

/// Returns the shape after `plan` with `outputs`, in any order (none for a Move or Drop; a moved file keeps its number). A new
/// target run gets the id next_run_id(shape). Cursors advance (cursor_after). kInvalidArgument, with the reason: an input is
/// missing, or outputs overlap files that stay.
Result<TreeShape> apply(TreeShape shape, const Plan& plan, const std::vector<PlanOutput>& outputs);

/// Place of a plan's new run of `level`: returns the run that it goes just before (newer than), 0 = after all. It takes the place
/// of the oldest input run, or the nearest place that keeps levels in order.
RunId place_new_run(const TreeShape& shape, const std::vector<PlanInput>& inputs, int level);

/// The runs that `plan` removes because it takes all their files: see the top of this file.
std::vector<RunId> removed_runs(const TreeShape& shape, const Plan& plan);

/// Marks the plan's inputs as busy, or as free again.
void mark_busy(TreeShape* shape, const Plan& plan, bool busy);

/// The round-robin cursor after `plan`: source level, and the end of the last file that it takes from there; none if the plan
/// moves nothing down.
std::optional<std::pair<int, std::string>> cursor_after(const TreeShape& shape, const Plan& plan);

/// An id above all runs of the shape.
RunId next_run_id(const TreeShape& shape);

}  // namespace ebbtide
