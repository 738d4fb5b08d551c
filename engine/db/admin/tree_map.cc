#include "db/admin/tree_map.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "base/oldest.h"
#include "tree/key_positions.h"

namespace ebbtide {
namespace {

// Returns at most `limit` cells for one run: if the run has more files, adjacent files share a cell.
TreeMapRun cells_of(const RunShape& run, const std::vector<std::pair<double, double>>& positions, std::size_t limit) {
  TreeMapRun out;
  out.id = run.id;
  out.level = run.level;
  out.files = run.files.size();
  out.bytes = run.bytes();
  const std::size_t together = (run.files.size() + limit - 1) / limit;
  for (std::size_t i = 0; i < run.files.size(); ++i) {
    const FileShape& file = run.files[i];
    if (i % together == 0) {
      out.cells.push_back({file.num, 0, positions[i].first, 0});
    }
    TreeMapCell& cell = out.cells.back();
    ++cell.files;
    cell.end = positions[i].second;
    cell.bytes += file.bytes;
    cell.entries += file.entries;
    cell.tombstones += file.tombstones;
    cell.range_tombstones += file.range_tombstones;
    keep_oldest(&cell.oldest_birth, file.oldest_birth);
    cell.busy = cell.busy || file.busy;
  }
  return out;
}

TreeMapJob job_of(const Plan& plan, const TreeShape& shape) {
  static constexpr const char* kKinds[] = {"none", "merge", "slice", "move", "rewrite", "drop"};
  static_assert(std::size(kKinds) == std::variant_size_v<decltype(Plan::action)>);
  TreeMapJob job;
  job.kind = kKinds[plan.action.index()];
  job.reason = reason_name(plan.reason);
  job.urgent = plan.urgent;
  bool first = true;
  for (const PlanInput& input : inputs_of(plan)) {
    const RunShape* run = shape.run(input.run);
    job.files += input.files.size();
    if (run == nullptr) continue;  // an edit has removed the run since the job started
    if (first) job.from_level = run->level;
    first = false;
    job.to_level = run->level;
    const std::set<FileNum> taken(input.files.begin(), input.files.end());
    for (const FileShape& file : run->files) {
      if (taken.count(file.num) != 0) job.bytes += file.bytes;
    }
  }
  if (const PlanTarget* target = target_of(plan)) job.to_level = target->level;
  return job;
}

TreeMapMemTable memtable_of(const MemTable& memtable, bool frozen, Millis now) {
  TreeMapMemTable out;
  out.bytes = memtable.memory_bytes();
  out.entries = memtable.entries();
  out.tombstones = memtable.tombstones();
  out.oldest_birth = oldest_birth(memtable, now);
  out.frozen = frozen;
  return out;
}

// Returns the version's shape with all pending deletes, including deletes that need no merge, such as deletes in dead pages.
TreeShape shape_with_all_births(const Version& version, const JobRegistry::Running& running, Millis deadline, Millis now) {
  TreeShape shape = version.shape(0, 0, deadline, now, [&](FileNum file) { return running.files.count(file) != 0; });
  for (std::size_t r = 0; r < shape.runs.size(); ++r) {
    const auto& files = version.runs[r].files;
    for (std::size_t f = 0; f < files.size(); ++f) {
      keep_oldest(&shape.runs[r].files.edit(f).oldest_birth, files[f]->oldest_obligation());
    }
  }
  return shape;
}

}  // namespace

void draw_tree(const TreeView& view, const JobRegistry::Running& running, Millis now, std::size_t max_cells, TreeMap* map) {
  for (const auto& memtable : view.memtables) map->memtables.push_back(memtable_of(*memtable, !map->memtables.empty(), now));
  const TreeShape shape = shape_with_all_births(*view.tables->version, running, map->delete_deadline, now);
  const auto positions = key_positions(shape);
  const std::size_t limit = std::max<std::size_t>(max_cells / std::max<std::size_t>(shape.runs.size(), 1), 8);
  for (std::size_t r = 0; r < shape.runs.size(); ++r) {
    if (!shape.runs[r].files.empty()) map->runs.push_back(cells_of(shape.runs[r], positions[r], limit));
  }
  for (const Plan& plan : running.plans) map->jobs.push_back(job_of(plan, shape));
}

}  // namespace ebbtide
