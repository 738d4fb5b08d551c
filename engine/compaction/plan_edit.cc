#include "compaction/plan_edit.h"

#include "tree/apply.h"

namespace ebbtide {

void finish_edit(const Plan& plan, const Version& version, const CompactionContext& context, const PlanInputs& inputs,
                 TreeEdit* edit) {
  edit->tree = version.tree;
  if (inputs.new_run && !edit->added_files.empty()) {
    edit->added_runs.push_back({inputs.target, inputs.level, inputs.before, false});
    edit->next_run = inputs.target + 1;
  }
  const TreeShape shape = version.shape();
  edit->removed_runs = removed_runs(shape, plan);
  if (context.settings.file_choice != FileChoice::kRoundRobin || plan.reason == Reason::kDeadline) return;
  if (auto cursor = cursor_after(shape, plan)) edit->cursors.push_back(std::move(*cursor));
}

}  // namespace ebbtide
