// Delete deadlines of tables: what db/purge/deadline_tracker.h needs of trees, and what is done on its word.
//
// The plans themselves are made in next_job (compactions.cc): what policy/fade.h asks for comes before what the merge policy asks
// for. Here is what they need beside the shape. Deletes that missed their deadline are counted in purge/missed_deadlines.h; the log
// and the manifest are kept by purge/retention.h.
#include "db/db_impl.h"

#include <algorithm>

#include "tree/frozen.h"

namespace ebbtide {
TreeShape DbImpl::shape_for_deadlines(const Tree& tree, const Version& version, std::uint64_t file_size, const DeadlineRule& rule,
                                      Millis now) const {
  TreeShape shape = version.shape(settings_.memtable_size, file_size, 0, now, [](FileNum) { return false; });
  shape.purge_before = std::max(tree.purge_before.load(std::memory_order_relaxed), version.overdue_before());
  if (rule.never()) return shape;
  if (rule.shortest() != 0) shape.deadline_bytes = tree.flush_rate.within(rule.shortest(), now);
  for (RunShape& run : shape.runs) {
    for (FileShape& file : run.files) {
      const Millis due = file.oldest_birth == 0 ? DeadlineRule::kNever : rule.due(file.oldest_birth);
      file.deadline = due == DeadlineRule::kNever ? 0 : due;
    }
  }
  return shape;
}

// A rewrite that leaves what it was for, such as the header of a collection whose elements are not gone yet, is not to be done
// again and again.
void DbImpl::note_fruitless(Tree& tree, const Plan& plan, const Version& version, const std::vector<FileMeta>& outputs,
                            Millis now) {
  constexpr std::uint64_t kRetryNs = 5'000'000'000;
  const auto* rewrite = std::get_if<Rewrite>(&plan.action);
  if (rewrite == nullptr || plan.reason != Reason::kDeadline) return;
  const TreeShape shape = version.shape();
  for (const FileMeta& output : outputs) {  // one that is not final was split, for lack of room
    const KeyRange range = range_of(output.stats);
    if (!shape.is_final(rewrite->run, range.start, range.end)) return;
  }
  MutexLock lock(state_mutex_);
  for (const FileMeta& output : outputs) {
    if (output.shape(0, now).oldest_birth != 0) tree.fruitless[output.data_file] = clock_.mono_ns() + kRetryNs;
  }
}

std::vector<FileNum> DbImpl::fruitless_files(Tree& tree) {
  std::erase_if(tree.fruitless, [now = clock_.mono_ns()](const auto& file) { return file.second <= now; });
  std::vector<FileNum> files;
  for (const auto& [file, until] : tree.fruitless) files.push_back(file);
  return files;
}

void DbImpl::keep_deadlines(const std::vector<TreeLoad>& loads) {
  const Millis now = time_.now();
  std::vector<DeadlineTracker::TreeNow> trees;
  for (const TreeLoad& load : loads) trees.push_back(deadlines_now(load, now));
  for (const std::size_t due : deadlines_.tick(trees, now)) flush_due(loads[due]);
}

DeadlineTracker::TreeNow DbImpl::deadlines_now(const TreeLoad& load, Millis now) {
  Tree& tree = *load.tree;
  const VersionPtr& version = load.view->tables->version;
  DeadlineTracker::TreeNow out{.id = tree.id, .budget = tree.budget, .margin = tree.margin, .tables = version};
  {
    MutexLock lock(state_mutex_);
    out.rule = tree.deadlines;
    out.frozen_rest = tree.frozen_rest;
  }
  out.purge_before = tree.purge_before.load(std::memory_order_relaxed);
  out.shape = [this, &tree, version, file_size = load.file_size, rule = out.rule, now] {
    TreeShape shape = shape_for_deadlines(tree, *version, file_size, rule, now);
    leave_out_frozen(&shape);  // there nothing can be done in time
    return shape;
  };
  out.policy = load.policy;
  out.io_budget = load.delete_io_budget;
  out.disk_is_short = is_short(disk_.room(DiskUse::kDeadline), load.file_size);
  for (const auto& memtable : load.view->memtables) out.memtables.push_back(oldest_birth(*memtable, now));
  return out;
}

void DbImpl::flush_due(const TreeLoad& load) {
  MutexLock lock(commit_mutex_);
  const auto it = trees_.find(load.tree->id);
  if (it == trees_.end()) return;
  if (it->second->active == load.view->memtables.front().get()) freeze(*it->second);
  hurry_flush(*it->second);
}

// Something is late and all threads are taken by merges that are not: they give way.
void DbImpl::make_way(const TreePtr& tree) {
  if (!deadlines_.is_late(tree->id, tree->margin.load(std::memory_order_relaxed), time_.now())) return;
  PlannerInput input;
  const Millis now = time_.stamped();  // as next_job: or merges would make way for none
  {
    MutexLock lock(state_mutex_);
    if (tree->view_owner == nullptr || tree->jobs.running() < pool_->width()) return;
    input = begin_input(*tree, now);
  }
  if (input.deadlines.never()) return;
  complete_input(*tree, &input);
  PlannerNotes notes;
  if (planner::urgent(input, &notes).urgent) tree->jobs.abort_others();
}

// Whatever edit comes next takes along what was promised and is not in the manifest yet: a change of the deadline must not be
// forgotten with the process.
void DbImpl::note_deadlines(VersionEdit* edit) {
  deadlines_changed_ = false;  // before looking: a change meanwhile sets it again
  const auto rule_of = [this](const TreePtr& tree) {
    MutexLock lock(state_mutex_);
    return tree->deadlines;
  };
  const std::vector<TreePtr> trees = live_trees();
  for (const TreePtr& tree : trees) {
    const DeadlineRule rule = rule_of(tree);
    const VersionPtr known = versions_->tree(tree->id);
    if (known != nullptr && known->deadlines == rule) continue;
    auto change = std::find_if(edit->trees.begin(), edit->trees.end(), [&](const TreeEdit& e) { return e.tree == tree->id; });
    if (change == edit->trees.end()) {
      if (known == nullptr) continue;  // the edit that creates it will have it
      change = edit->trees.insert(change, TreeEdit{});
      change->tree = tree->id;
    }
    change->deadlines = rule;
  }
}

// Nothing if there is nothing to write, or no way to write it now.
Status DbImpl::write_deadlines() {
  {
    MutexLock lock(state_mutex_);
    if (closing_ || !background_error_.is_ok()) return Status::ok();
  }
  TRY(commit_database_changes());  // trees that are so new that the manifest does not have them
  VersionEdit edit;
  note_deadlines(&edit);
  if (edit.trees.empty()) return Status::ok();
  Status status = commit_edit(std::move(edit));
  if (!status.is_ok()) deadlines_changed_ = true;
  return status;
}

void DbImpl::schedule_deadlines() {
  if (!deadlines_changed_ || deadlines_queued_.exchange(true)) return;
  submit(Priority::kHigh, [this] {
    Status status;
    {
      MutexLock manifest(manifest_mutex_);
      status = write_deadlines();
    }
    deadlines_queued_ = false;
    if (!status.is_ok() && !closing_) background_failed(status, "a change of the delete deadline");
  });
}

}  // namespace ebbtide
