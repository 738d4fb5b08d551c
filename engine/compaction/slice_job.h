// Carries out a Slice: merges one key range of its inputs into the target, and rewrites the rest of files that straddle its ends.
#pragma once

#include "compaction/executor.h"

namespace ebbtide {

/// Called by execute().
Result<CompactionResult> execute_slice(const Plan& plan, const Version& version, const CompactionContext& context,
                                       const CompactionEnv& env);

}  // namespace ebbtide
