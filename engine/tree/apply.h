// Computes the shape of a tree after a plan. The executor (through version edits), the simulator and the tests share these rules.
//
// If a plan takes all files of a run, the run is removed. The oldest run of a level >= 1 is an exception: it stays without files,
// since other running jobs may have its id as their target.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <engine/result.h>
#include "tree/plan.h"
#include "tree/shape.h"

namespace ebbtide {

/// A file that a plan wrote. Only a Slice writes into more than one run: the parts of its inputs outside its range stay in the
/// inputs' runs. A Rewrite writes into its file's run.
struct PlanOutput {
  RunId run = 0;  ///< 0 = the plan's target, or the run of the rewritten file; for files of Drop::pages it must not be 0
  FileShape file;
};

/// Returns the shape after `plan` wrote `outputs`, which may be in any order. A Move or Drop of whole files has no outputs; a
/// moved file keeps its number. A new target run gets the id next_run_id(shape). Advances the cursor of cursor_after(). Returns
/// kInvalidArgument, with the reason, if an input is missing or outputs overlap files that stay.
Result<TreeShape> apply(TreeShape shape, const Plan& plan, const std::vector<PlanOutput>& outputs);

/// Returns the run before which (as the next newer run) a plan's new run of `level` is placed; 0 = after all runs. That is where
/// the oldest input run is, or the nearest position that keeps the levels in order.
RunId place_new_run(const TreeShape& shape, const std::vector<PlanInput>& inputs, int level);

/// Returns the runs that `plan` removes because it takes all their files, by the rule at the top of this file.
std::vector<RunId> removed_runs(const TreeShape& shape, const Plan& plan);

/// Marks the plan's inputs as busy, or as no longer busy.
void mark_busy(TreeShape* shape, const Plan& plan, bool busy);

/// Returns the round-robin cursor that `plan` changes: the source level, and the new key. The key is the end of the last file
/// that the plan takes from that level. Returns no value if the plan moves no files down.
std::optional<std::pair<int, std::string>> cursor_after(const TreeShape& shape, const Plan& plan);

/// Returns an id greater than the ids of all runs of the shape.
RunId next_run_id(const TreeShape& shape);

}  // namespace ebbtide
