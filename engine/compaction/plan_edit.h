// Completes the edit of a job whose plan has a target run.
#pragma once

#include "compaction/executor.h"
#include "compaction/plan_inputs.h"

namespace ebbtide {

/// Adds to `edit` the new run, if there is one and it has files, the removal of runs that the plan empties, and the round-robin
/// cursor. The edit must have its added files already.
void finish_edit(const Plan& plan, const Version& version, const CompactionContext& context, const PlanInputs& inputs,
                 TreeEdit* edit);

}  // namespace ebbtide
