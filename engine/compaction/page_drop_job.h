// Carries out a Drop: files that go as a whole, and pages of files that stay.
//
// A file that loses pages keeps its data file and gets a new metadata file; the edit takes the one description out and puts the
// other in. What is dead in data files is punched later, by whoever knows that no reader has an older description.
#pragma once

#include "compaction/executor.h"

namespace ebbtide {

/// Part of execute().
Result<CompactionResult> execute_drop(const Plan& plan, const Version& version, const CompactionContext& context,
                                      const CompactionEnv& env);

}  // namespace ebbtide
