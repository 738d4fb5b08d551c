// Carries out a Merge, Move or Rewrite: groups of overlapping files, each moved or merged.
#pragma once

#include "compaction/executor.h"

namespace ebbtide {

/// Carries out the plan for execute().
Result<CompactionResult> execute_merge(const Plan& plan, const Version& version, const CompactionContext& context,
                                       const CompactionEnv& env);

}  // namespace ebbtide
