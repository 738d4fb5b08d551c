#include "policy/klsm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/invariant.h"
#include "policy/run_limits.h"

namespace ebbtide {
namespace {

bool is_busy(const RunShape& run) { return run.is_busy(); }

Plan merge_plan(std::vector<PlanInput> inputs, PlanTarget target) {
  Plan plan;
  plan.reason = Reason::kRunCount;
  plan.action = Merge{std::move(inputs), target};
  return plan;
}

}  // namespace

/// One level of the shape, with its units; runs are newest first.
struct KLsmPolicy::Level {
  std::vector<const RunShape*> runs;  ///< the runs that have files
  std::vector<std::uint64_t> units;   ///< units of each of `runs`
  const RunShape* oldest = nullptr;   ///< the oldest run of the level, with or without files
  std::uint64_t total = 0, bytes = 0, run_units = 1;
  std::size_t limit = 1;
  bool busy = false;
};

/// The merge that a level needs: the whole level is merged into the next one (`down`), or its newest `merge` runs become one run.
struct KLsmPolicy::Step {
  bool down = false;
  std::size_t merge = 0;
  [[nodiscard]] bool any() const { return down || merge > 1; }
};

LevelVectors klsm_vectors(int size_ratio, std::vector<int> runs) {
  LevelVectors vectors;
  vectors.run_limits = std::move(runs);
  vectors.capacities = {static_cast<double>(size_ratio - 1)};
  vectors.size_ratio = size_ratio;
  return vectors;
}

KLsmPolicy::KLsmPolicy(std::string name, LevelVectors vectors, int last_runs)
    : name_(std::move(name)), vectors_(std::move(vectors)), last_runs_(last_runs) {
  ASSERT(!vectors_.run_limits.empty() && vectors_.size_ratio >= 2 && vectors_.size_ratio == std::floor(vectors_.size_ratio));
  ASSERT(std::all_of(vectors_.run_limits.begin(), vectors_.run_limits.end(), [](int limit) { return limit >= 1; }));
  ASSERT(last_runs >= 0);
}

std::uint64_t KLsmPolicy::units(const TreeShape& shape, std::uint64_t bytes, int level) const {
  const double unit = capacity_bytes(shape, level) / (vectors_.size_ratio - 1);
  const double count = std::min(std::round(static_cast<double>(bytes) / unit), 0x1p52);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(count));
}

int KLsmPolicy::run_limit(int level, int last_level) const {
  return last_runs_ != 0 && level == last_level ? last_runs_ : vectors_.run_limit(level);
}

std::vector<KLsmPolicy::Level> KLsmPolicy::levels_of(const TreeShape& shape) const {
  std::vector<Level> levels(1);
  const int last_level = shape.last_level();
  for (const RunShape& run : shape.runs) {
    const auto at = static_cast<std::size_t>(run.level);
    if (levels.size() <= at) levels.resize(at + 1);
    Level& level = levels[at];
    level.oldest = &run;
    if (run.files.empty()) continue;
    const std::uint64_t bytes = run.bytes();
    level.runs.push_back(&run);
    level.units.push_back(units(shape, bytes, run.level));
    level.total += level.units.back();
    level.bytes += bytes;
    level.busy |= is_busy(run);
  }
  levels.emplace_back();  // an empty level, into which the last level can be merged
  const auto arrivals = static_cast<std::size_t>(vectors_.size_ratio) - 1;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    levels[i].limit = static_cast<std::size_t>(run_limit(static_cast<int>(i), last_level));
    levels[i].run_units = (arrivals + levels[i].limit - 1) / levels[i].limit;
  }
  return levels;
}

KLsmPolicy::Step KLsmPolicy::due_step(const Level& level, std::uint64_t ratio) {
  if (level.runs.empty()) return {};
  if (level.total >= ratio) return {true, 0};
  if (level.runs.size() > level.limit) return {false, level.runs.size() - level.limit + 1};
  if (level.runs.size() > 1 && level.units[0] + level.units[1] <= level.run_units) return {false, 2};
  return {};
}

Plan KLsmPolicy::merge_down(const TreeShape& shape, const std::vector<Level>& levels, std::size_t at,
                            const PolicyContext& context) const {
  const Level& here = levels[at];
  const Level& below = levels[at + 1];
  const int target_level = static_cast<int>(at) + 1;
  const std::uint64_t arriving = units(shape, here.bytes, target_level);
  std::vector<PlanInput> inputs;
  for (const RunShape* run : here.runs) inputs.push_back(whole_run(*run));
  PlanTarget target{0, target_level};
  const bool room = !below.runs.empty() && !is_busy(*below.runs.front()) && below.units.front() + arriving <= below.run_units &&
                    below.total + arriving < static_cast<std::uint64_t>(vectors_.size_ratio);
  if (room) {
    target.run = below.runs.front()->id;
    inputs.push_back(whole_run(*below.runs.front()));
  } else if (below.runs.empty() && below.oldest != nullptr) {
    target.run = below.oldest->id;
  }
  if (inputs.size() > 1) return merge_plan(std::move(inputs), target);
  const FileShapes& files = here.runs.front()->files;
  const bool movable =
      std::all_of(files.begin(), files.end(), [&](const FileShape& file) { return may_move(shape, file, target, context.now); });
  if (!movable) return merge_plan(std::move(inputs), target);
  Plan plan;
  plan.reason = Reason::kRunCount;
  plan.action = Move{inputs.front().run, std::move(inputs.front().files), target};
  return plan;
}

Plan KLsmPolicy::next(const TreeShape& shape, const PolicyContext& context) const {
  const std::vector<Level> levels = levels_of(shape);
  const auto ratio = static_cast<std::uint64_t>(vectors_.size_ratio);
  std::vector<std::pair<double, std::size_t>> due;  // pairs: the factor by which a level exceeds its limit, and the level
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    const Level& level = levels[i];
    if (level.busy || !due_step(level, ratio).any()) continue;
    const double over = std::max(static_cast<double>(level.total) / static_cast<double>(ratio),
                                 static_cast<double>(level.runs.size()) / static_cast<double>(level.limit + 1));
    due.emplace_back(over, i);
  }
  // The sort is stable: of levels that exceed their limits equally, the smallest stays first.
  std::stable_sort(due.begin(), due.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [over, i] : due) {
    const Level& level = levels[i];
    const Step step = due_step(level, ratio);
    if (!step.down) {
      std::vector<PlanInput> inputs;
      for (std::size_t r = 0; r < step.merge; ++r) inputs.push_back(whole_run(*level.runs[r]));
      return merge_plan(std::move(inputs), {level.runs[step.merge - 1]->id, static_cast<int>(i)});
    }
    if (!levels[i + 1].busy && due_step(levels[i + 1], ratio).down) continue;
    return merge_down(shape, levels, i, context);
  }
  return {};
}

std::uint64_t KLsmPolicy::debt_bytes(const TreeShape& shape) const {
  const std::vector<Level> levels = levels_of(shape);
  const auto ratio = static_cast<std::uint64_t>(vectors_.size_ratio);
  std::uint64_t debt = 0, carried = 0;  // `carried`: bytes that come down from the level above
  for (std::size_t i = 0; i < levels.size() || carried > 0; ++i) {
    static const Level kNone;
    const Level& level = i < levels.size() ? levels[i] : kNone;
    const std::uint64_t arriving = carried == 0 ? 0 : units(shape, carried, static_cast<int>(i));
    const std::uint64_t bytes = level.bytes + carried;
    const Step step = due_step(level, ratio);
    if (level.total + arriving >= ratio && bytes > 0) {
      debt += bytes;
      carried = bytes;
      continue;
    }
    for (std::size_t r = 0; r < step.merge; ++r) debt += level.runs[r]->bytes();
    const bool joins = arriving > 0 && step.merge == 0 && !level.runs.empty() && level.units[0] + arriving <= level.run_units;
    if (joins) debt += level.runs[0]->bytes();
    carried = 0;
  }
  return debt;
}

std::string KLsmPolicy::check(const TreeShape& shape) const {
  const std::vector<Level> levels = levels_of(shape);
  const auto arrivals = static_cast<std::uint64_t>(vectors_.size_ratio) - 1;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const Level& level = levels[i];
    const std::string who = "level " + std::to_string(i) + " has ";
    if (level.runs.size() > level.limit)
      return who + std::to_string(level.runs.size()) + (level.runs.size() == 1 ? " run; at most " : " runs; at most ") +
             std::to_string(level.limit);
    if (level.total > arrivals) {
      const double unit = std::min(std::pow(vectors_.size_ratio, static_cast<double>(i)), 0x1p63);
      return who + std::to_string(level.total) + " units of " + std::to_string(static_cast<std::uint64_t>(unit)) +
             " memtables; at most " + std::to_string(arrivals);
    }
  }
  return "";
}

double KLsmPolicy::capacity_bytes(const TreeShape& shape, int level) const {
  return vectors_.capacity(level) * static_cast<double>(std::max<std::uint64_t>(shape.memtable_bytes, 1));
}

// A merge of level 0 begins at one run more than its limit, but with at most T runs. In a small tree level 0 is the last level.
int KLsmPolicy::due_runs() const {
  return std::min(std::max(vectors_.run_limit(0), last_runs_) + 1, static_cast<int>(vectors_.size_ratio));
}
int KLsmPolicy::slowdown_runs() const { return slowdown_at(due_runs()); }
int KLsmPolicy::stop_runs() const { return stop_at(due_runs()); }

}  // namespace ebbtide
