// Carries out a Slice: merges one key range of its inputs into the target run. Files that reach beyond the range are rewritten
// without the range.
#pragma once

#include "compaction/executor.h"

namespace ebbtide {

/// Carries out the plan for execute().
Result<CompactionResult> execute_slice(const Plan& plan, const Version& version, const CompactionContext& context,
                                       const CompactionEnv& env);

}  // namespace ebbtide
