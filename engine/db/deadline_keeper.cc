// Keeping the deadlines of deletes: on each tick, of each tree, what is owed and by when.
//
//   * a memtable whose oldest delete has had its time there (d_0 of policy/fade.h) is flushed though it is not full;
//   * the margin by which work starts before its deadline follows the work that is left and the measured rate;
//   * the rate that the deadlines need, against the measured one, slows writes down (write_stall.cc) before a miss.
//
// Deletes that missed their deadline are counted in purge/missed_deadlines.h; the log and the manifest are kept by purge/retention.h.
//
// The plans themselves are made in next_job (compactions.cc): what policy/fade.h asks for comes before what the merge policy asks
// for. Here is what they need beside the shape.
#include "db/db_impl.h"

#include <algorithm>

#include "base/oldest.h"
#include "tree/frozen.h"

namespace ebbtide {
namespace {

// The shape of a tree is looked at anew when it changed, and as often: births come by expiry, too.
constexpr Millis kLookEvery = 200;

std::uint64_t final_bytes(const TreeShape& shape) {
  std::uint64_t bytes = 0;
  for (const RunShape& run : shape.runs) {
    for (const FileShape& file : run.files) {
      const KeyRange range = file.range();
      if (shape.is_final(run.id, range.start, range.end)) bytes += file.bytes;
    }
  }
  return bytes;
}

std::string seconds(Millis ms) { return std::to_string((ms + 999) / 1000) + " s"; }

}  // namespace

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

Plan DbImpl::next_urgent(Tree& tree, const PlanBase& base, const TreeShape& shape, Millis now) const {
  FadeContext context{now, tree.margin.load(std::memory_order_relaxed), false, base.fruitless};
  context.over_budget = tree.budget.is_spent();
  context.room = disk_.room(DiskUse::kDeadline);
  // Two merges that each fit need not fit together.
  if (is_short(context.room, shape.file_bytes) && disk_.claimed_bytes() != 0) return {};
  return tree.jobs.next_urgent(*base.policy, context, shape);
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
  std::vector<TreeLoad> due;
  std::vector<std::string> exceeded;
  std::uint64_t final = 0;
  {
    MutexLock lock(deadline_mutex_);
    double needed = 0;
    for (const TreeLoad& load : loads) {
      if (keep_deadlines_of(load, now)) due.push_back(load);
      if (follow_budget(*load.tree, load.delete_io_budget)) {
        exceeded.push_back("the delete deadlines of tree " + std::to_string(load.tree->id) + " need reads and writes of " +
                           std::to_string(load.tree->budget.rate() / 1024) + " KiB a second, more than tree.deletes.io_budget, " +
                           std::to_string(load.delete_io_budget / 1024) + " KiB: they get it");
      }
      needed += load.tree->kept.work.bytes_per_ms;
      final += load.tree->kept.final_bytes;
    }
    const double rate = merge_rate_.bytes_per_ms();
    deadline_permille_ = rate > 0 ? static_cast<std::uint32_t>(std::min(1000.0, 1000 * needed / rate)) : 0;
  }
  for (const std::string& text : exceeded) say(Severity::kWarning, text);
  for (const TreeLoad& load : due) flush_due(load);
  report_feasible(loads, final);
}

// Whether it is news that the deadlines need more: told once for all the work that there is.
bool DbImpl::follow_budget(Tree& tree, std::uint64_t configured) {
  const bool raised = tree.budget.follow(configured, tree.kept.work.bytes_per_ms);
  const bool news = raised && !tree.budget_told;
  tree.budget_told = raised || (tree.budget_told && tree.kept.work.bytes != 0);
  return news;
}

void DbImpl::flush_due(const TreeLoad& load) {
  MutexLock lock(commit_mutex_);
  const auto it = trees_.find(load.tree->id);
  if (it == trees_.end()) return;
  if (it->second->active == load.view->memtables.front().get()) freeze(*it->second);
  hurry_flush(*it->second);
}

// Whether the active memtable, or one that rests without being flushed, has had its time.
bool DbImpl::keep_deadlines_of(const TreeLoad& load, Millis now) {
  Tree& tree = *load.tree;
  DeadlineRule rule;
  bool rest = false;
  {
    MutexLock lock(state_mutex_);
    rule = tree.deadlines;
    rest = tree.frozen_rest;
  }
  const Millis purge_before = tree.purge_before.load(std::memory_order_relaxed);
  Tree::Deadlines& kept = tree.kept;
  if (rule.never() && purge_before == 0) {
    kept = {};
    return false;
  }
  const VersionPtr& version = load.view->tables->version;
  if (kept.version != version || now >= kept.looked_at + kLookEvery) {
    TreeShape shape = shape_for_deadlines(tree, *version, load.file_size, rule, now);
    leave_out_frozen(&shape);  // there nothing can be done in time
    kept.version = version;
    kept.looked_at = now;
    kept.work = fade_work(shape, now);
    kept.final_bytes = final_bytes(shape);
    kept.memtable_share = TtlShares(shape, *load.policy).memtable();
    double rate = merge_rate_.bytes_per_ms();
    if (load.delete_io_budget != 0) {
      const double budget = DeadlineBudget::work_rate(load.delete_io_budget);
      rate = rate == 0 ? budget : std::min(rate, budget);
    }
    tree.margin = is_short(disk_.room(DiskUse::kDeadline), load.file_size)
                      ? rule.shortest() / 2  // many small merges take longer than the rate says, and make room
                      : deadline_margin(rule.shortest(), kept.work.bytes, rate);
  }
  kept.oldest_birth = kept.work.oldest_birth;
  for (const auto& memtable : load.view->memtables) keep_oldest(&kept.oldest_birth, oldest_birth(*memtable, now));
  const Millis due = kept.oldest_birth == 0 ? DeadlineRule::kNever : rule.due(kept.oldest_birth);
  kept.deadline = due == DeadlineRule::kNever ? 0 : due;
  Millis birth = 0;
  for (const auto& memtable : load.view->memtables) {
    keep_oldest(&birth, oldest_birth(*memtable, now));
    if (!rest) break;  // the others are on their way to tables
  }
  if (birth == 0) return false;
  if (birth <= purge_before) return true;
  return rule.due(birth) != DeadlineRule::kNever &&
         now >= expires_at(birth, rule.due(birth), tree.margin.load(std::memory_order_relaxed), kept.memtable_share);
}

// The least deadline that could be kept: all final data merged once.
void DbImpl::report_feasible(const std::vector<TreeLoad>& loads, std::uint64_t final) {
  const double rate = merge_rate_.bytes_per_ms();
  const Millis feasible = rate > 0 ? static_cast<Millis>(static_cast<double>(final) / rate) : 0;
  least_deadline_ = feasible;
  Millis strictest = DeadlineRule::kNever;
  {
    MutexLock lock(state_mutex_);
    for (const TreeLoad& load : loads) {
      if (load.tree->deadlines.deadline() != 0) strictest = std::min(strictest, load.tree->deadlines.deadline());
    }
  }
  bool tell = false;
  {
    MutexLock lock(deadline_mutex_);
    const bool infeasible = feasible > strictest;
    tell = infeasible && !infeasible_told_;
    infeasible_told_ = infeasible;
  }
  if (tell) {
    say(Severity::kWarning, "the delete deadline of " + seconds(strictest) +
                                " is shorter than merging all data takes at the measured rate: " + seconds(feasible));
  }
}

// Something is late and all threads are taken by merges that are not: they give way.
void DbImpl::make_way(const TreePtr& tree) {
  {
    MutexLock lock(deadline_mutex_);
    const FadeWork& work = tree->kept.work;
    const Millis half = tree->margin.load(std::memory_order_relaxed) / 2;
    if (work.deadline == 0 || time_.now() < expires_at(work.oldest_birth, work.deadline, half, 1)) return;
  }
  PlanBase base;
  {
    MutexLock lock(state_mutex_);
    if (tree->view_owner == nullptr || tree->jobs.running() < pool_->width()) return;
    base = plan_base(*tree);
  }
  if (base.deadlines.never()) return;
  const Millis now = time_.stamped();  // as next_job: or merges would make way for none
  TreeShape shape = shape_for_deadlines(*tree, *base.tables->version, base.settings.file_size, base.deadlines, now);
  leave_out_frozen(&shape);
  if (next_urgent(*tree, base, shape, now).urgent) tree->jobs.abort_others();
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
