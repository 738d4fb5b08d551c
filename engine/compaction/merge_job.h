// Carries out a Merge, Move or Rewrite: groups of overlapping files, each moved or merged.
#pragma once

#include "compaction/executor.h"

namespace ebbtide {

/// Called by execute().
Result<CompactionResult> execute_merge(const Plan& plan, const Version& version, const CompactionContext& context,
                                       const CompactionEnv& env);

}  // namespace ebbtide
