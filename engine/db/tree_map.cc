// The tree as a picture. Versions are immutable: locks are held only to take hold of one.
#include <engine/tree_map.h>

#include <algorithm>
#include <set>

#include "base/oldest.h"
#include "db/db_impl.h"
#include "tree/key_positions.h"

namespace ebbtide {
namespace {

/// Files of a run as cells, at most `limit` of them: neighbours share one where there are more.
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
    if (run == nullptr) continue;  // an edit came between
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

}  // namespace

Result<TreeMap> DbImpl::tree_map(DatabaseId database, std::size_t max_cells) {
  TreeMap map;
  map.database = database;
  TreePtr tree = tree_of(database);
  map.policy = next_policy(database);
  if (tree == nullptr) return map;
  std::shared_ptr<const TreeView> view;
  {
    MutexLock lock(state_mutex_);
    if (tree->view_owner == nullptr) return map;
    view = tree->view_owner;
    map.policy = tree->policy->name();
    map.delete_deadline = tree->settings.delete_deadline;
  }
  const Millis now = time_.now();
  map.tree = tree->id;
  for (const auto& memtable : view->memtables) {
    TreeMapMemTable m;
    m.bytes = memtable->memory_bytes();
    m.entries = memtable->entries();
    m.tombstones = memtable->tombstones();
    m.oldest_birth = oldest_birth(*memtable, now);
    m.frozen = !map.memtables.empty();
    map.memtables.push_back(m);
  }
  const JobRegistry::Running running = tree->jobs.now();
  TreeShape shape =
      view->tables->version->shape(0, 0, map.delete_deadline, now, [&](FileNum f) { return running.files.count(f) != 0; });
  for (std::size_t i = 0; i < shape.runs.size(); ++i) {  // what goes without a merge is no policy's concern, but is owed
    const auto& files = view->tables->version->runs[i].files;
    for (std::size_t f = 0; f < files.size(); ++f)
      keep_oldest(&shape.runs[i].files[f].oldest_birth, files[f]->oldest_obligation());
  }
  const auto positions = key_positions(shape);
  const std::size_t limit = std::max<std::size_t>(max_cells / std::max<std::size_t>(shape.runs.size(), 1), 8);
  for (std::size_t i = 0; i < shape.runs.size(); ++i) {
    if (!shape.runs[i].files.empty()) map.runs.push_back(cells_of(shape.runs[i], positions[i], limit));
  }
  for (const Plan& plan : running.plans) map.jobs.push_back(job_of(plan, shape));
  return map;
}

}  // namespace ebbtide
