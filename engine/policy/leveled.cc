#include "policy/leveled.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/invariant.h"
#include "policy/file_choice.h"

namespace ebbtide {
namespace {

/// The runs of one level, newest first, and their sums.
struct Level {
  std::vector<const RunShape*> runs;  ///< all, empty ones too
  std::vector<const RunShape*> with_files;
  std::uint64_t bytes = 0, idle_bytes = 0;  ///< idle: in files that are not busy
  bool busy = false;                        ///< any file is

  [[nodiscard]] int count() const { return static_cast<int>(with_files.size()); }
  /// The run that files from above merge into: the one with files, else an empty one, else 0 (a new run).
  [[nodiscard]] RunId target() const {
    if (!with_files.empty()) return with_files.back()->id;
    return runs.empty() ? 0 : runs.back()->id;
  }
};

std::vector<Level> levels_of(const TreeShape& shape) {
  std::vector<Level> levels(1);
  for (const RunShape& run : shape.runs) {
    const auto at = static_cast<std::size_t>(run.level);
    if (levels.size() <= at) levels.resize(at + 1);
    Level& level = levels[at];
    level.runs.push_back(&run);
    if (!run.files.empty()) level.with_files.push_back(&run);
    for (const FileShape& file : run.files) {
      level.bytes += file.bytes;
      level.idle_bytes += file.busy ? 0 : file.bytes;
      level.busy |= file.busy;
    }
  }
  levels.emplace_back();  // the level below the last: where that one overflows to
  return levels;
}

/// The files of the target level that a job over `range` must take; none if one of them is busy or the level has runs to merge
/// first.
struct Overlap {
  PlanInput input;
  std::uint64_t bytes = 0;
};
std::optional<Overlap> overlap_with(const Level& target, const KeyRange& range) {
  Overlap overlap;
  if (target.count() > 1) return std::nullopt;
  if (target.with_files.empty()) return overlap;
  const RunShape& run = *target.with_files.front();
  const auto [first, last] = run.overlapping(range.start, range.end);
  overlap.input.run = run.id;
  for (std::size_t i = first; i < last; ++i) {
    if (run.files[i].busy) return std::nullopt;
    overlap.input.files.push_back(run.files[i].num);
    overlap.bytes += run.files[i].bytes;
  }
  return overlap;
}

bool contains(const KeyRange& outer, const KeyRange& inner) {
  return outer.start <= inner.start && (outer.end.empty() || (!inner.end.empty() && inner.end <= outer.end));
}

/// The chosen file, and neighbours inside the span of it and the files of `below` that it overlaps (at least one). Taking them
/// rewrites no further file of `below`. At most `bytes` of neighbours.
std::vector<FileNum> chosen_and_spanned(const RunShape& run, const FileShape& chosen, const RunShape& below,
                                        std::uint64_t bytes) {
  KeyRange range = chosen.range();
  const auto [begin, end] = below.overlapping(range.start, range.end);
  range = hull(range, hull(below.files[begin].range(), below.files[end - 1].range()));
  const auto take = [&](const FileShape& file) {
    if (file.busy || file.bytes > bytes || !contains(range, file.range())) return false;
    bytes -= file.bytes;
    return true;
  };
  auto first = run.files.begin() + (&chosen - run.files.data()), last = first + 1;
  while (first != run.files.begin() && take(*std::prev(first))) --first;
  while (last != run.files.end() && take(*last)) ++last;
  std::vector<FileNum> files;
  for (auto file = first; file != last; ++file) files.push_back(file->num);
  return files;
}

Plan make_plan(std::vector<PlanInput> inputs, PlanTarget target, Reason reason) {
  Plan plan;
  plan.reason = reason;
  plan.action = Merge{std::move(inputs), target};
  return plan;
}

Plan make_move(const PlanInput& input, PlanTarget target, Reason reason) {
  Plan plan;
  plan.reason = reason;
  plan.action = Move{input.run, input.files, target};
  return plan;
}

Plan merge_level0(const TreeShape& shape, const std::vector<Level>& levels, const PolicyContext& context) {
  const Level& level0 = levels[0];
  if (level0.busy) return {};
  std::optional<KeyRange> range;
  bool movable = level0.count() == 1;
  const PlanTarget target{levels[1].target(), 1};
  std::vector<PlanInput> inputs;
  for (const RunShape* run : level0.with_files) {
    inputs.push_back(whole_run(*run));
    for (const FileShape& file : run->files) {
      range = range ? hull(*range, file.range()) : file.range();
      movable = movable && may_move(shape, file, target, context.now);
    }
  }
  std::optional<Overlap> overlap = overlap_with(levels[1], *range);
  if (!overlap) return {};
  if (overlap->input.files.empty()) {
    if (movable) return make_move(inputs.front(), target, Reason::kRunCount);
  } else {
    inputs.push_back(std::move(overlap->input));
  }
  return make_plan(std::move(inputs), target, Reason::kRunCount);
}

Plan merge_surplus(const std::vector<Level>& levels, int level) {
  const Level& here = levels[static_cast<std::size_t>(level)];
  if (here.busy) return {};
  std::vector<PlanInput> inputs;
  for (const RunShape* run : here.with_files) inputs.push_back(whole_run(*run));
  return make_plan(std::move(inputs), {here.target(), level}, Reason::kRunCount);
}

Plan step_down(const TreeShape& shape, const std::vector<Level>& levels, int level, int level0_limit,
               const PolicyContext& context) {
  const Level& here = levels[static_cast<std::size_t>(level)];
  const Level& below = levels[static_cast<std::size_t>(level) + 1];
  const PlanTarget target{below.target(), level + 1};
  if (here.count() != 1 || (target.run == 0 && here.busy)) return {};
  std::vector<FileCandidate> candidates;
  for (const FileShape& file : here.with_files.front()->files) {
    if (file.busy) continue;
    const KeyRange range = file.range();
    if (const auto overlap = overlap_with(below, range)) candidates.push_back({&file, overlap->bytes});
  }
  const auto at = static_cast<std::size_t>(level);
  const Bytes cursor = at < shape.cursors.size() ? Bytes(shape.cursors[at]) : Bytes();
  const FileCandidate* chosen = choose_file(context.file_choice, candidates, cursor);
  if (chosen == nullptr) return {};
  Overlap overlap = *overlap_with(below, chosen->file->range());
  std::vector<PlanInput> inputs{{here.with_files.front()->id, {chosen->file->num}}};
  if (!overlap.input.files.empty()) {
    // Do not delay level 0: nothing new starts with files that its merge needs.
    const bool level0_waits = level == 1 && levels[0].count() >= level0_limit;
    const std::uint64_t most = level0_waits ? 0 : chosen->file->bytes + overlap.bytes;
    inputs.front().files = chosen_and_spanned(*here.with_files.front(), *chosen->file, *below.with_files.front(), most);
    inputs.push_back(std::move(overlap.input));
  } else if (may_move(shape, *chosen->file, target, context.now)) {
    return make_move(inputs.front(), target, Reason::kSize);
  }
  return make_plan(std::move(inputs), target, Reason::kSize);
}

std::string too_many_runs(int level, int runs, int limit) {
  return "level " + std::to_string(level) + " has " + std::to_string(runs) + (runs == 1 ? " run; at most " : " runs; at most ") +
         std::to_string(limit);
}

std::uint64_t saturating(double bytes) {
  return bytes >= 0x1p63 ? std::numeric_limits<std::uint64_t>::max() : static_cast<std::uint64_t>(std::max(bytes, 0.0));
}

}  // namespace

int LevelVectors::run_limit(int level) const {
  return run_limits[std::min(static_cast<std::size_t>(level), run_limits.size() - 1)];
}

double LevelVectors::capacity(int level) const {
  const auto at = static_cast<std::size_t>(level);
  if (at < capacities.size()) return capacities[at];
  return capacities.back() * std::pow(size_ratio, static_cast<double>(at - (capacities.size() - 1)));
}

LevelVectors leveling_vectors(double size_ratio, int level0_runs) {
  LevelVectors vectors;
  vectors.run_limits = {level0_runs, 1};
  vectors.capacities = {static_cast<double>(level0_runs), std::max(size_ratio, static_cast<double>(level0_runs))};
  vectors.size_ratio = size_ratio;
  return vectors;
}

bool may_move(const TreeShape& shape, const FileShape& file, const PlanTarget& target, Millis now) {
  const bool expired = file.min_expiry != 0 && file.min_expiry <= now;
  if (file.tombstones == 0 && file.range_tombstones == 0 && file.dead == 0 && file.oldest_birth == 0 && !expired) return true;
  const KeyRange range = file.range();
  bool older = false;  // than the target
  for (const RunShape& run : shape.runs) {
    if (target.run == 0 ? run.level >= target.level : older) {
      const auto [first, last] = run.overlapping(range.start, range.end);
      if (last - first == 1 && contains(run.files[first].range(), range)) return true;
    }
    older |= run.id == target.run;
  }
  return false;
}

LeveledPolicy::LeveledPolicy(std::string name, LevelVectors vectors) : name_(std::move(name)), vectors_(std::move(vectors)) {
  ASSERT(!vectors_.run_limits.empty() && !vectors_.capacities.empty());
  ASSERT(std::all_of(vectors_.run_limits.begin() + 1, vectors_.run_limits.end(), [](int limit) { return limit == 1; }));
}

Plan LeveledPolicy::next(const TreeShape& shape, const PolicyContext& context) const {
  const std::vector<Level> levels = levels_of(shape);
  struct Due {
    double score;
    int level;
    bool surplus;
  };
  std::vector<Due> due;
  const int level0_limit = vectors_.run_limit(0);
  if (levels[0].count() >= level0_limit) due.push_back({static_cast<double>(levels[0].count()) / level0_limit, 0, false});
  for (int level = 1; level + 1 < static_cast<int>(levels.size()); ++level) {
    const Level& here = levels[static_cast<std::size_t>(level)];
    const int limit = vectors_.run_limit(level);
    const double full = static_cast<double>(here.idle_bytes) / capacity_bytes(shape, level);
    if (here.count() > limit)
      due.push_back({static_cast<double>(here.count()) / limit, level, true});
    else if (full > 1)
      due.push_back({full, level, false});
  }
  // Stable: of equal scores the smallest level stays first.
  std::stable_sort(due.begin(), due.end(), [](const Due& a, const Due& b) { return a.score > b.score; });
  if (!due.empty() && levels[0].count() >= level0_limit) {
    if (Plan plan = merge_level0(shape, levels, context); plan.empty()) {
      std::erase_if(due, [](const Due& d) { return d.level == 0 || (d.level == 1 && !d.surplus); });
    }
  }
  for (const Due& d : due) {
    Plan plan = d.level == 0 ? merge_level0(shape, levels, context)
                : d.surplus  ? merge_surplus(levels, d.level)
                             : step_down(shape, levels, d.level, level0_limit, context);
    if (!plan.empty()) return plan;
  }
  return {};
}

std::uint64_t LeveledPolicy::debt_bytes(const TreeShape& shape) const {
  const std::vector<Level> levels = levels_of(shape);
  const auto bytes_at = [&](std::size_t level) { return level < levels.size() ? static_cast<double>(levels[level].bytes) : 0.0; };
  double debt = 0, arriving = 0;
  if (levels[0].count() >= vectors_.run_limit(0)) {
    arriving = bytes_at(0);
    debt += bytes_at(0) + bytes_at(1);
  }
  for (std::size_t level = 1; level < levels.size() || arriving > 0; ++level) {
    if (level < levels.size() && levels[level].count() > vectors_.run_limit(static_cast<int>(level))) debt += bytes_at(level);
    const double size = bytes_at(level) + arriving;
    arriving = std::max(0.0, size - capacity_bytes(shape, static_cast<int>(level)));
    // The excess goes down, together with its share of the next level.
    if (arriving > 0) debt += arriving * (1 + bytes_at(level + 1) / size);
  }
  return saturating(debt);
}

std::string LeveledPolicy::check(const TreeShape& shape) const {
  const std::vector<Level> levels = levels_of(shape);
  // The runs of level 0 go down once there are as many as its limit, so that at rest there are fewer.
  if (levels[0].count() >= vectors_.run_limit(0)) return too_many_runs(0, levels[0].count(), vectors_.run_limit(0) - 1);
  for (std::size_t level = 1; level < levels.size(); ++level) {
    const int limit = vectors_.run_limit(static_cast<int>(level));
    if (levels[level].count() > limit) return too_many_runs(static_cast<int>(level), levels[level].count(), limit);
    const double capacity = capacity_bytes(shape, static_cast<int>(level));
    if (static_cast<double>(levels[level].bytes) > capacity) {
      return "level " + std::to_string(level) + " has " + std::to_string(levels[level].bytes) + " bytes; at most " +
             std::to_string(saturating(capacity));
    }
  }
  return "";
}

double LeveledPolicy::capacity_bytes(const TreeShape& shape, int level) const {
  return vectors_.capacity(level) * static_cast<double>(std::max<std::uint64_t>(shape.memtable_bytes, 1));
}

// Level 0 fills while its merge into level 1 runs, and that one rewrites up to max(size_ratio, level0_runs) + level0_runs
// memtables. Three level-0 merges' worth of runs may wait before writes slow down, six before they stop; the constants keep a
// small level0_runs from stopping writes over a handful of small flushes.
int LeveledPolicy::slowdown_runs() const { return 3 * vectors_.run_limit(0) + 4; }
int LeveledPolicy::stop_runs() const { return 6 * vectors_.run_limit(0) + 8; }

}  // namespace ebbtide
