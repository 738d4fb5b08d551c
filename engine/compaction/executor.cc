// Each kind of action has a job, which turns a plan into an edit:
//
//   Merge, Move, Rewrite   merge_job.cc       groups of overlapping files, which are moved or merged
//   Slice                  slice_job.cc       one key range; entries of input files outside the range stay in their runs
//   Drop                   page_drop_job.cc   whole files and pages, without reading them
//
// A job makes groups (merge_group.h). GroupMerge divides each group into partitions (partitions.h), cuts it into parts
// (group_cuts.h), and merges the parts. PartBuilder builds a part, run_merge_part() (merge_part.h) merges it, and parallel.h runs
// parts in parallel.
#include "compaction/executor.h"

#include "compaction/merge_job.h"
#include "compaction/page_drop_job.h"
#include "compaction/slice_job.h"

namespace ebbtide {

std::vector<double> CompactionContext::filter_slices(RunId run) const {
  if (const auto at = filters.find(run); at != filters.end()) return at->second;
  return settings.filter_bits_per_key > 0 ? std::vector<double>{settings.filter_bits_per_key} : std::vector<double>();
}

Result<CompactionResult> execute(const Plan& plan, const Version& version, const CompactionContext& context,
                                 const CompactionEnv& env) {
  if (plan.empty()) return CompactionResult{};
  if (std::holds_alternative<Drop>(plan.action)) return execute_drop(plan, version, context, env);
  if (std::holds_alternative<Slice>(plan.action)) return execute_slice(plan, version, context, env);
  return execute_merge(plan, version, context, env);
}

}  // namespace ebbtide
