// Carries out a Drop of whole files, and of pages of other files.
//
// A file that loses pages keeps its data file and gets a new metadata file; the edit replaces the old metadata file by the new
// one. Dead bytes in data files are punched later, once no reader has an older metadata file.
#pragma once

#include "compaction/executor.h"

namespace ebbtide {

/// Carries out the plan for execute().
Result<CompactionResult> execute_drop(const Plan& plan, const Version& version, const CompactionContext& context,
                                      const CompactionEnv& env);

}  // namespace ebbtide
