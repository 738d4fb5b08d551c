#include "db/purge/deadline_tracker.h"

#include <algorithm>

#include "base/oldest.h"

namespace ebbtide {
namespace {

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

// Of the active memtable, or of one that rests without being flushed; 0 = none.
Millis oldest_resting(const DeadlineTracker::TreeNow& tree) {
  Millis birth = 0;
  for (const Millis memtable : tree.memtables) {
    keep_oldest(&birth, memtable);
    if (!tree.frozen_rest) break;  // the others are on their way to tables
  }
  return birth;
}

}  // namespace

std::vector<std::size_t> DeadlineTracker::tick(std::span<const TreeNow> trees, Millis now) {
  std::vector<std::size_t> due;
  std::vector<std::string> exceeded;
  std::uint64_t final_bytes = 0;
  {
    MutexLock lock(mutex_);
    double needed = 0;
    for (std::size_t i = 0; i < trees.size(); ++i) {
      const TreeNow& tree = trees[i];
      if (keep(tree, now)) due.push_back(i);
      if (exceeds_budget(tree)) {
        exceeded.push_back("the delete deadlines of tree " + std::to_string(tree.id) + " need reads and writes of " +
                           std::to_string(tree.budget.rate() / 1024) + " KiB a second, more than tree.deletes.io_budget, " +
                           std::to_string(tree.io_budget / 1024) + " KiB: they get it");
      }
      needed += tree.state.work_.bytes_per_ms;
      final_bytes += tree.state.final_bytes_;
    }
    const double rate = rate_.bytes_per_ms();
    needed_permille_ = rate > 0 ? static_cast<std::uint32_t>(std::min(1000.0, 1000 * needed / rate)) : 0;
  }
  for (const std::string& text : exceeded) warn_(text);
  report_least(trees, final_bytes);
  return due;
}

// Whether the tree's memtables are to be flushed.
bool DeadlineTracker::keep(const TreeNow& tree, Millis now) {
  TreeDeadlines& state = tree.state;
  if (tree.rule.never() && tree.purge_before == 0) {
    state.tables_ = nullptr;
    state.looked_at_ = 0;
    state.work_ = {};
    state.final_bytes_ = 0;
    state.memtable_share_ = 1;
    return false;
  }
  if (state.tables_ != tree.tables || now >= state.looked_at_ + kLookEvery) look(tree, now);
  const Millis birth = oldest_resting(tree);
  if (birth == 0) return false;
  if (birth <= tree.purge_before) return true;
  return tree.rule.due(birth) != DeadlineRule::kNever &&
         now >= expires_at(birth, tree.rule.due(birth), tree.margin.load(std::memory_order_relaxed), state.memtable_share_);
}

void DeadlineTracker::look(const TreeNow& tree, Millis now) {
  TreeDeadlines& state = tree.state;
  const TreeShape shape = tree.shape();
  state.tables_ = tree.tables;
  state.looked_at_ = now;
  state.work_ = fade_work(shape, now);
  state.final_bytes_ = final_bytes(shape);
  state.memtable_share_ = TtlShares(shape, *tree.policy).memtable();
  double rate = rate_.bytes_per_ms();
  if (tree.io_budget != 0) {
    const double budget = DeadlineBudget::work_rate(tree.io_budget);
    rate = rate == 0 ? budget : std::min(rate, budget);
  }
  const Millis shortest = tree.rule.shortest();
  tree.margin = tree.disk_is_short ? shortest / 2 : deadline_margin(shortest, state.work_.bytes, rate);
}

// Whether it is news that the deadlines need more: reported once for all the work that there is.
bool DeadlineTracker::exceeds_budget(const TreeNow& tree) {
  TreeDeadlines& state = tree.state;
  const bool raised = tree.budget.follow(tree.io_budget, state.work_.bytes_per_ms);
  const bool news = raised && !state.over_budget_known_;
  state.over_budget_known_ = raised || (state.over_budget_known_ && state.work_.bytes != 0);
  return news;
}

// At the measured rate all final data can be merged once within the least deadline.
void DeadlineTracker::report_least(std::span<const TreeNow> trees, std::uint64_t final_bytes) {
  const double rate = rate_.bytes_per_ms();
  const Millis least = rate > 0 ? static_cast<Millis>(static_cast<double>(final_bytes) / rate) : 0;
  least_deadline_ = least;
  Millis strictest = DeadlineRule::kNever;
  for (const TreeNow& tree : trees) {
    if (tree.rule.deadline() != 0) strictest = std::min(strictest, tree.rule.deadline());
  }
  bool news = false;
  {
    MutexLock lock(mutex_);
    const bool too_short = least > strictest;
    news = too_short && !too_short_known_;
    too_short_known_ = too_short;
  }
  if (!news) return;
  warn_("the delete deadline of " + seconds(strictest) +
        " is shorter than merging all data takes at the measured rate: " + seconds(least));
}

std::uint64_t DeadlineTracker::work_bytes(const TreeDeadlines& tree) const {
  MutexLock lock(mutex_);
  return tree.work_.bytes;
}

bool DeadlineTracker::is_late(const TreeDeadlines& tree, Millis margin, Millis now) const {
  MutexLock lock(mutex_);
  const FadeWork& work = tree.work_;
  return work.deadline != 0 && now >= expires_at(work.oldest_birth, work.deadline, margin / 2, 1);
}

}  // namespace ebbtide
