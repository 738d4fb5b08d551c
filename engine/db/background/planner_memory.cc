#include "db/background/planner_memory.h"

#include <set>

namespace ebbtide {
namespace {
constexpr std::uint64_t kFruitlessNs = 5'000'000'000;
}  // namespace

void PlannerMemory::recall(TreeId tree, PlannerInput* input) const {
  input->look_for_pages = true;
  MutexLock lock(mutex_);
  const auto at = trees_.find(tree);
  if (at == trees_.end()) return;
  const TreeState& state = at->second;
  const std::uint64_t now_ns = clock_.mono_ns();
  input->paused |= state.merges.rests(now_ns);
  input->deadlines_rest |= state.deadline_merges.rests(now_ns);
  const bool same = state.pages_of.lock() == input->tables && state.pages_purged_by == input->purge_before;
  const bool due = state.next_page_look != 0 && input->now >= state.next_page_look;
  input->look_for_pages = !same || due || input->reads.parts != 0;
  if (input->look_for_pages) input->parts_done = state.parts_done;
  for (const auto& [file, until_ns] : state.fruitless) {
    if (until_ns > now_ns) input->fruitless.push_back(file);
  }
}

bool PlannerMemory::merges_fail(TreeId tree) const {
  MutexLock lock(mutex_);
  const auto at = trees_.find(tree);
  return at != trees_.end() && at->second.merges.failed();
}

bool PlannerMemory::note_planned(TreeId tree, const PlannerInput& input, const PlannerNotes& notes) {
  if (!notes.next_page_look && !notes.broken_bounds) return false;
  MutexLock lock(mutex_);
  TreeState& state = trees_[tree];
  if (notes.next_page_look) {
    state.pages_of = input.tables;
    state.pages_purged_by = input.purge_before;
    state.next_page_look = *notes.next_page_look;
  }
  if (!notes.broken_bounds || state.broken_bounds == *notes.broken_bounds) return false;
  state.broken_bounds = *notes.broken_bounds;
  return !state.broken_bounds.empty();
}

void PlannerMemory::note_ended(TreeId tree, bool for_deadline, const Status& status) {
  if (status.code() == Code::kAborted) return;
  MutexLock lock(mutex_);
  TreeState& state = trees_[tree];
  (for_deadline ? state.deadline_merges : state.merges).note(status, clock_.mono_ns());
}

void PlannerMemory::note_outputs(const Plan& plan, const Version& version, const std::vector<FileMeta>& outputs, Millis now) {
  const auto* rewrite = std::get_if<Rewrite>(&plan.action);
  if (rewrite == nullptr || plan.reason != Reason::kDeadline) return;
  const TreeShape shape = version.shape();
  for (const FileMeta& output : outputs) {  // a rewrite that splits a file for lack of space has outputs that are not bottommost
    const KeyRange range = range_of(output.stats);
    if (!shape.is_final(rewrite->run, range.start, range.end)) return;
  }
  const std::uint64_t now_ns = clock_.mono_ns();
  MutexLock lock(mutex_);
  TreeState& state = trees_[version.tree];
  std::erase_if(state.fruitless, [now_ns](const auto& file) { return file.second <= now_ns; });
  for (const FileMeta& output : outputs) {
    if (output.shape(0, now).oldest_birth != 0) state.fruitless[output.data_file] = now_ns + kFruitlessNs;
  }
}

void PlannerMemory::forget_fruitless(TreeId tree) {
  MutexLock lock(mutex_);
  if (const auto at = trees_.find(tree); at != trees_.end()) at->second.fruitless.clear();
}

void PlannerMemory::note_dropped(const Version& before, const CompactionResult& result, const TablesView& after) {
  if (result.parts_done.empty()) return;
  const SeqNum newest = before.records->newest();
  std::set<FileNum> living;
  for (const RunView& run : after.runs) {
    for (const OpenTablePtr& table : run.tables()) living.insert(table->meta->metadata_file);
  }
  MutexLock lock(mutex_);
  TreeState& state = trees_[before.tree];
  std::erase_if(state.parts_done, [&](const auto& done) { return living.count(done.first) == 0; });
  for (const FileNum file : result.parts_done) state.parts_done[file] = newest;
  state.pages_of.reset();
}

void PlannerMemory::forget(TreeId tree) {
  MutexLock lock(mutex_);
  trees_.erase(tree);
}

}  // namespace ebbtide
