#include "db/purge/deadline_tracker.h"

#include <algorithm>

#include "base/oldest.h"

namespace ebbtide {
namespace {

std::uint64_t final_bytes(const TreeShape& shape) {
  std::uint64_t bytes = 0;
  for (const RunShape& run : shape.runs) {
    for (std::size_t c = 0; c < run.files.chunks(); ++c) {
      const FileShapes::Chunk& chunk = run.files.at_chunk(c);
      if (shape.is_final(run.id, chunk.items.front().smallest, chunk.items.back().range().end)) {
        bytes += FileShapes::sums_of(chunk).bytes;
        continue;
      }
      for (const FileShape& file : chunk.items) {
        const KeyRange range = file.range();
        if (shape.is_final(run.id, range.start, range.end)) bytes += file.bytes;
      }
    }
  }
  return bytes;
}

std::string seconds(Millis ms) { return std::to_string((ms + 999) / 1000) + " s"; }

// Returns the oldest birth in memtables that are not being flushed: the active memtable, and frozen memtables without a queued
// flush. 0 = none.
Millis oldest_resting(const DeadlineTracker::TreeNow& tree) {
  Millis birth = 0;
  for (const Millis memtable : tree.memtables) {
    keep_oldest(&birth, memtable);
    if (!tree.frozen_rest) break;  // the frozen memtables are being flushed
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
      TreeState& state = states_[tree.id];
      if (keep(tree, now, &state)) due.push_back(i);
      if (exceeds_budget(tree, &state)) {
        exceeded.push_back("the delete deadlines of tree " + std::to_string(tree.id) + " need reads and writes of " +
                           std::to_string(tree.budget.rate() / 1024) + " KiB a second, more than tree.deletes.io_budget, " +
                           std::to_string(tree.io_budget / 1024) + " KiB; the work may exceed this limit");
      }
      needed += state.work.bytes_per_ms;
      final_bytes += state.final_bytes;
    }
    forget_others(trees);
    const double rate = rate_.bytes_per_ms();
    needed_permille_ = rate > 0 ? static_cast<std::uint32_t>(std::min(1000.0, 1000 * needed / rate)) : 0;
  }
  for (const std::string& text : exceeded) warn_(text);
  report_least(trees, final_bytes);
  return due;
}

// Computes the tree's work for deadlines again if that is due. Returns true if the tree's memtables must be flushed.
bool DeadlineTracker::keep(const TreeNow& tree, Millis now, TreeState* state) {
  if (tree.rule.never() && tree.purge_before == 0) {
    *state = {.over_budget_known = state->over_budget_known};
    return false;
  }
  if (state->tables != tree.tables || now >= state->looked_at + kLookEvery) look(tree, now, state);
  const Millis birth = oldest_resting(tree);
  if (birth == 0) return false;
  if (birth <= tree.purge_before) return true;
  return tree.rule.due(birth) != DeadlineRule::kNever &&
         now >= expires_at(birth, tree.rule.due(birth), tree.margin.load(std::memory_order_relaxed), state->memtable_share);
}

void DeadlineTracker::look(const TreeNow& tree, Millis now, TreeState* state) {
  const TreeShape shape = tree.shape();
  state->tables = tree.tables;
  state->looked_at = now;
  state->work = fade_work(shape, now);
  look_at_final_bytes(shape, state);
  state->memtable_share = TtlShares(shape, *tree.policy).memtable();
  double rate = rate_.bytes_per_ms();
  if (tree.io_budget != 0) {
    const double budget = DeadlineBudget::work_rate(tree.io_budget);
    rate = rate == 0 ? budget : std::min(rate, budget);
  }
  const Millis shortest = tree.rule.shortest();
  tree.margin = tree.disk_is_short ? shortest / 2 : deadline_margin(shortest, state->work.bytes, rate);
}

// Counts the bottommost bytes, from which the shortest feasible deadline is computed. The number need not be exact: in a tree of
// many files it is computed again only when the tree has grown or shrunk by a sixty-fourth.
void DeadlineTracker::look_at_final_bytes(const TreeShape& shape, TreeState* state) {
  constexpr std::size_t kFewFiles = 1024;
  constexpr std::uint64_t kShare = 64;
  std::size_t files = 0;
  for (const RunShape& run : shape.runs) files += run.files.size();
  const std::uint64_t bytes = shape.bytes(), then = state->bytes;
  if (files > kFewFiles && then != 0 && (bytes < then ? then - bytes : bytes - then) <= then / kShare) return;
  state->bytes = bytes;
  state->final_bytes = final_bytes(shape);
}

// Sets the rate of the budget. Returns true when the deadlines first need more than the budget, so that this is logged once; then
// false until no merge for deadlines is left.
bool DeadlineTracker::exceeds_budget(const TreeNow& tree, TreeState* state) {
  const bool raised = tree.budget.follow(tree.io_budget, state->work.bytes_per_ms);
  const bool first = raised && !state->over_budget_known;
  state->over_budget_known = raised || (state->over_budget_known && state->work.bytes != 0);
  return first;
}

void DeadlineTracker::forget_others(std::span<const TreeNow> trees) {
  if (states_.size() == trees.size()) return;
  std::erase_if(states_, [&](const auto& known) {
    return std::none_of(trees.begin(), trees.end(), [&](const TreeNow& tree) { return tree.id == known.first; });
  });
}

// Updates the shortest feasible deadline, which is the time to merge all bottommost data once at the measured rate, and warns if
// a deadline is shorter.
void DeadlineTracker::report_least(std::span<const TreeNow> trees, std::uint64_t final_bytes) {
  const double rate = rate_.bytes_per_ms();
  const Millis least = rate > 0 ? static_cast<Millis>(static_cast<double>(final_bytes) / rate) : 0;
  least_deadline_ = least;
  Millis strictest = DeadlineRule::kNever;
  for (const TreeNow& tree : trees) {
    if (tree.rule.deadline() != 0) strictest = std::min(strictest, tree.rule.deadline());
  }
  bool first = false;
  {
    MutexLock lock(mutex_);
    const bool too_short = least > strictest;
    first = too_short && !too_short_known_;
    too_short_known_ = too_short;
  }
  if (!first) return;
  warn_("the delete deadline of " + seconds(strictest) +
        " is shorter than merging all data takes at the measured rate: " + seconds(least));
}

FadeWork DeadlineTracker::work_of(TreeId tree) const {
  MutexLock lock(mutex_);
  const auto known = states_.find(tree);
  return known == states_.end() ? FadeWork{} : known->second.work;
}

std::uint64_t DeadlineTracker::work_bytes(TreeId tree) const { return work_of(tree).bytes; }

bool DeadlineTracker::is_late(TreeId tree, Millis margin, Millis now) const {
  const FadeWork work = work_of(tree);
  return work.deadline != 0 && now >= expires_at(work.oldest_birth, work.deadline, margin / 2, 1);
}

}  // namespace ebbtide
