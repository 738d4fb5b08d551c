// Plans that no policy asks for: a merge by hand, and files that may go unread.
#include <algorithm>

#include "compaction/delete_only.h"
#include "db/db_impl.h"

namespace ebbtide {

// All files that meet the range, of all runs, merged into the oldest of these runs. Empty if at most one run has any and nothing
// in them is owed. `busy`: a running job has one of them.
Plan DbImpl::plan_full_merge(const TreeShape& shape, const KeyRange& range, bool* busy) {
  Merge merge;
  bool dirty = false;
  for (const RunShape& run : shape.runs) {
    PlanInput input{run.id, {}};
    for (const FileShape& file : run.files) {
      if (!file.overlaps(range.start, range.end)) continue;
      *busy |= file.busy;
      dirty |= file.tombstones + file.range_tombstones + file.dead > 0;
      input.files.push_back(file.num);
    }
    if (input.files.empty()) continue;
    merge.target = {run.id, run.level};
    merge.inputs.push_back(std::move(input));
  }
  if (merge.inputs.empty() || *busy || (merge.inputs.size() == 1 && !dirty)) return {};
  // Files of the oldest run that overlap any input must take part, though they lie outside the range.
  for (bool grown = true; grown;) {
    grown = false;
    for (const RunShape& run : shape.runs) {
      auto input = std::find_if(merge.inputs.begin(), merge.inputs.end(), [&](const PlanInput& i) { return i.run == run.id; });
      if (input == merge.inputs.end()) continue;
      for (const FileShape& file : run.files) {
        if (std::find(input->files.begin(), input->files.end(), file.num) != input->files.end()) continue;
        for (const PlanInput& other : merge.inputs) {
          for (const FileShape& have : shape.run(other.run)->files) {
            if (std::find(other.files.begin(), other.files.end(), have.num) == other.files.end() || !have.overlaps(file))
              continue;
            *busy |= file.busy;
            input->files.push_back(file.num);
            grown = true;
            break;
          }
          if (grown) break;
        }
        if (grown) break;
      }
    }
  }
  if (*busy) return {};
  for (PlanInput& input : merge.inputs) {
    // In key order, as the run has them.
    const RunShape& run = *shape.run(input.run);
    std::vector<FileNum> ordered;
    for (const FileShape& file : run.files) {
      if (std::find(input.files.begin(), input.files.end(), file.num) != input.files.end()) ordered.push_back(file.num);
    }
    input.files = std::move(ordered);
  }
  Plan plan;
  plan.action = std::move(merge);
  plan.reason = Reason::kManual;
  return plan;
}

Plan DbImpl::next_drop(const Tree& tree, const TablesView& tables) const {
  std::map<FileNum, const TableReader*> ranged;  // the tables that have range tombstones
  for (const RunView& run : tables.runs) {
    for (std::size_t i = 0; i < run.tables().size(); ++i) {
      if (run.has_range_tombstones(i)) ranged[run.tables()[i]->meta->data_file] = &run.reader(i);
    }
  }
  if (ranged.empty()) return {};
  DeleteOnlyInput input;
  input.version = tables.version.get();
  input.visible_seq = visible_seq_.load(std::memory_order_acquire);
  input.tombstones = [&](const FileMeta& file) { return ranged.at(file.data_file)->range_tombstones(); };
  input.busy = [&](FileNum file) { return tree.jobs.is_busy(file); };
  return plan_delete_only(input);
}

}  // namespace ebbtide
