#include "tree/apply.h"

#include <algorithm>

namespace ebbtide {
namespace {

RunShape* find_run(TreeShape* shape, RunId id) {
  for (RunShape& run : shape->runs) {
    if (run.id == id) return &run;
  }
  return nullptr;
}

/// Returns the numbers in ascending order, for binary search: a merge may have thousands of inputs in a run of tens of thousands.
std::vector<FileNum> sorted(std::vector<FileNum> files) {
  std::sort(files.begin(), files.end());
  return files;
}
bool has(const std::vector<FileNum>& sorted_files, FileNum num) {
  return std::binary_search(sorted_files.begin(), sorted_files.end(), num);
}

/// Removes the inputs from the shape and returns them.
Result<std::vector<FileShape>> take_inputs(TreeShape* shape, const std::vector<PlanInput>& inputs) {
  std::vector<FileShape> taken;
  for (const PlanInput& input : inputs) {
    RunShape* run = find_run(shape, input.run);
    if (run == nullptr) return Status::invalid_argument("run " + std::to_string(input.run) + " is not in the tree");
    const std::vector<FileNum> wanted = sorted(input.files);
    std::vector<FileNum> found;
    for (const FileShape& file : run->files) {
      if (!has(wanted, file.num)) continue;
      found.push_back(file.num);
      taken.push_back(file);
    }
    run->files.erase_if([&](const FileShape& file) { return has(wanted, file.num); });
    found = sorted(std::move(found));
    for (FileNum num : wanted) {
      if (!has(found, num)) {
        return Status::invalid_argument("file " + std::to_string(num) + " is not in run " + std::to_string(input.run));
      }
    }
    if (found.size() != wanted.size()) return Status::invalid_argument("a plan names a file twice");
  }
  return taken;
}

void insert_file(RunShape* run, FileShape file) {
  file.busy = false;
  const auto at = run->files.partition_point([&](const FileShape& other) { return other.smallest < file.smallest; });
  run->files.insert(at, std::move(file));
}

/// Returns the target run of outputs, which is created if it is new.
Result<RunId> resolve_target(TreeShape* shape, const Plan& plan, const std::vector<PlanInput>& inputs, RunId fresh,
                             RunId before) {
  const PlanTarget* target = target_of(plan);
  if (target == nullptr) return inputs.empty() ? RunId{0} : inputs.front().run;
  if (target->run != 0) {
    if (find_run(shape, target->run) == nullptr) {
      return Status::invalid_argument("target run " + std::to_string(target->run) + " is not in the tree");
    }
    return target->run;
  }
  const auto at =
      std::find_if(shape->runs.begin(), shape->runs.end(), [before](const RunShape& run) { return run.id == before; });
  shape->runs.insert(at, RunShape{fresh, target->level, {}});
  return fresh;
}

}  // namespace

Result<TreeShape> apply(TreeShape shape, const Plan& plan, const std::vector<PlanOutput>& outputs) {
  // Computes these values before the shape changes, since they depend on the old shape.
  const std::vector<PlanInput> inputs = inputs_of(plan);
  const PlanTarget* target = target_of(plan);
  const RunId before = target != nullptr && target->run == 0 ? place_new_run(shape, inputs, target->level) : 0;
  const RunId fresh = next_run_id(shape);
  const std::vector<RunId> removed = removed_runs(shape, plan);
  const auto cursor = cursor_after(shape, plan);

  TreeShape out = std::move(shape);
  TRY_ASSIGN(taken, take_inputs(&out, inputs));
  TRY_ASSIGN(target_run, resolve_target(&out, plan, inputs, fresh, before));
  if (std::holds_alternative<Move>(plan.action)) {
    for (FileShape& file : taken) insert_file(find_run(&out, target_run), std::move(file));
  }
  for (const PlanOutput& output : outputs) {
    RunShape* run = find_run(&out, output.run == 0 ? target_run : output.run);
    if (run == nullptr) return Status::invalid_argument("output run " + std::to_string(output.run) + " is not in the tree");
    insert_file(run, output.file);
  }
  for (RunId gone : removed) {
    const RunShape* run = out.run(gone);
    if (run->files.empty()) out.runs.erase(out.runs.begin() + (run - out.runs.data()));
  }
  if (cursor) {
    if (out.cursors.size() <= static_cast<std::size_t>(cursor->first))
      out.cursors.resize(static_cast<std::size_t>(cursor->first) + 1);
    out.cursors[static_cast<std::size_t>(cursor->first)] = cursor->second;
  }
  for (RunShape& run : out.runs) run.files.seal();
  if (std::string wrong = check(out); !wrong.empty())
    return Status::invalid_argument("the shape after the plan would be wrong: " + wrong);
  return out;
}

RunId place_new_run(const TreeShape& shape, const std::vector<PlanInput>& inputs, int level) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < shape.runs.size(); ++i) {
    const bool is_input =
        std::any_of(inputs.begin(), inputs.end(), [&](const PlanInput& in) { return in.run == shape.runs[i].id; });
    if (is_input) at = i;
  }
  while (at < shape.runs.size() && shape.runs[at].level < level) ++at;
  // Only a plan that moves data up to this level meets runs of deeper levels here. The plan takes all files of these runs, so the
  // new run may be placed before them.
  while (at > 0 && shape.runs[at - 1].level > level) --at;
  return at < shape.runs.size() ? shape.runs[at].id : 0;
}

std::vector<RunId> removed_runs(const TreeShape& shape, const Plan& plan) {
  std::vector<RunId> gone;
  if (std::holds_alternative<Slice>(plan.action) || std::holds_alternative<Rewrite>(plan.action)) return gone;
  const PlanTarget* target = target_of(plan);
  const auto* drop = std::get_if<Drop>(&plan.action);  // the files in Drop::pages stay
  for (const PlanInput& input : drop != nullptr ? drop->inputs : inputs_of(plan)) {
    const RunShape* run = shape.run(input.run);
    if (run == nullptr || input.files.size() < run->files.size() || (target != nullptr && target->run == run->id)) continue;
    const RunShape* next = run == &shape.runs.back() ? nullptr : run + 1;
    const bool oldest_of_level = next == nullptr || next->level != run->level;
    if (run->level == 0 || !oldest_of_level) gone.push_back(run->id);
  }
  return gone;
}

void mark_busy(TreeShape* shape, const Plan& plan, bool busy) {
  for (const PlanInput& input : inputs_of(plan)) {
    RunShape* run = find_run(shape, input.run);
    if (run == nullptr) continue;
    set_busy(run, sorted(input.files), busy);
  }
}

std::optional<std::pair<int, std::string>> cursor_after(const TreeShape& shape, const Plan& plan) {
  const PlanTarget* target = target_of(plan);
  const std::vector<PlanInput> inputs = inputs_of(plan);
  if (target == nullptr || inputs.empty()) return std::nullopt;
  const RunShape* source = shape.run(inputs.front().run);
  if (source == nullptr || source->level == 0 || source->level >= target->level) return std::nullopt;
  std::optional<std::string> end;
  const std::vector<FileNum> taken = sorted(inputs.front().files);
  const FileShape* last = nullptr;
  for (const FileShape& file : source->files) {
    if (has(taken, file.num)) last = &file;
  }
  if (last != nullptr) end = last->range().end;
  if (!end) return std::nullopt;
  return std::pair{source->level, std::move(*end)};
}

RunId next_run_id(const TreeShape& shape) {
  RunId largest = 0;
  for (const RunShape& run : shape.runs) largest = std::max(largest, run.id);
  return largest + 1;
}

}  // namespace ebbtide
