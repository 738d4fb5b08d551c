#include "policy/leveled.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/invariant.h"
#include "policy/file_choice.h"
#include "policy/run_limits.h"

namespace ebbtide {
namespace {

/// The runs of one level, and the sums of their bytes.
struct Level {
  std::vector<const RunShape*> runs;  ///< all runs, newest first, also those without files
  std::vector<const RunShape*> with_files;
  std::uint64_t bytes = 0, idle_bytes = 0;  ///< idle_bytes: bytes in files that are not busy
  bool busy = false;                        ///< true if any file is busy

  [[nodiscard]] int count() const { return static_cast<int>(with_files.size()); }
  /// Returns the run into which files of the level above merge: the run with files, else an empty run, else 0 (a new run).
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
    const std::uint64_t bytes = run.bytes();
    level.bytes += bytes;
    level.idle_bytes += bytes - run.busy_bytes();
    level.busy |= run.is_busy();
  }
  levels.emplace_back();  // an empty level, into which files of the last level can be merged
  return levels;
}

/// The files of the target level that a job must take, since they overlap the job's range. overlap_with() returns no value if one
/// of these files is busy, or if the level has several runs, which must be merged first.
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

/// Returns the chosen file and neighbours, together at most `bytes` bytes. The neighbours lie within the range of the chosen file
/// and of the files of `below` that it overlaps (at least one). So no further file of `below` must be rewritten.
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
  auto first = run.files.begin() + static_cast<std::ptrdiff_t>(run.overlapping(chosen.smallest, chosen.range().end).first);
  auto last = first + 1;
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

/// Walks along a run and finds, for each of its files, the overlapping files of the run below. Both runs are in key order, so one
/// pass finds the overlaps of all files.
class Below {
 public:
  /// `below` is null if the level below has no files.
  explicit Below(const RunShape* below) : run_(below) {
    if (run_ != nullptr) at_ = run_->files.begin();
  }
  /// Starts the walk at `file`. Without this call, the walk starts at the first file.
  void begin_at(const FileShape& file) {
    if (run_ != nullptr) at_ = run_->files.partition_point([&](const FileShape& f) { return f.is_before(file); });
  }
  /// Returns true if `file`, the next file of the walk, overlaps no file of the run below.
  bool is_clear_under(const FileShape& file) {
    if (run_ == nullptr) return true;
    while (at_ != run_->files.end() && at_->is_before(file)) ++at_;
    return at_ == run_->files.end() || file.is_before(*at_);
  }
  /// Returns the bytes of the files that `file`, the next file of the walk, overlaps; no value if one of them is busy.
  std::optional<std::uint64_t> bytes_under(const FileShape& file) {
    if (run_ == nullptr) return 0;
    while (at_ != run_->files.end() && at_->is_before(file)) ++at_;
    std::uint64_t bytes = 0;
    for (auto under = at_; under != run_->files.end() && !file.is_before(*under); ++under) {
      if (under->busy) return std::nullopt;
      bytes += under->bytes;
    }
    return bytes;
  }

 private:
  const RunShape* const run_;
  FileShapes::const_iterator at_{};
};

/// Returns the files of a run that can be merged into the run below, each with the bytes that it overlaps there. Leaves out files
/// that choose_file() would not choose.
std::vector<FileCandidate> candidates_of(const RunShape& run, const RunShape* below, FileChoice choice) {
  std::uint64_t most_tombstones = 0;
  run.files.for_each_sums([&](const ShapeSums& sums) { most_tombstones = std::max(most_tombstones, sums.most_tombstones); });
  std::vector<FileCandidate> candidates;
  Below walk(below);
  for (const FileShape& file : run.files) {
    if (file.busy) continue;
    const std::optional<std::uint64_t> bytes = walk.bytes_under(file);
    if (!bytes) continue;
    candidates.push_back({&file, *bytes});
    const bool best = *bytes == 0 && file.tombstones + file.range_tombstones == most_tombstones;
    if (choice == FileChoice::kLeastOverlap && best) break;  // no later file is better; of equal files the first is chosen
  }
  return candidates;
}

/// The most files of one move, so that the edit stays small.
constexpr std::size_t kMostMoved = 4096;
/// In a run of up to this many files, a plan moves only one file: each file is then chosen by its overlap at that time. Moving
/// several files at once costs more writes later (measured with Garnering).
constexpr std::size_t kManyFiles = 256;

/// Returns the chosen file and files after it, until they have `bytes` bytes together. None of them overlaps a file of `below`.
std::vector<FileNum> chosen_and_next(const TreeShape& shape, const RunShape& run, const FileShape& chosen, const RunShape* below,
                                     const PlanTarget& target, double bytes, Millis now) {
  Below walk(below);
  walk.begin_at(chosen);
  std::vector<FileNum> files;
  auto file = run.files.begin() + static_cast<std::ptrdiff_t>(run.overlapping(chosen.smallest, chosen.range().end).first);
  const std::size_t most = run.files.size() > kManyFiles ? kMostMoved : 1;
  for (; file != run.files.end() && bytes > 0 && files.size() < most; ++file) {
    if (file->busy || !walk.is_clear_under(*file) || !may_move(shape, *file, target, now)) break;
    files.push_back(file->num);
    bytes -= static_cast<double>(file->bytes);
  }
  return files;
}

/// Returns the plan that takes one file, and possibly neighbours, from `level` to the next level; an empty plan if no such plan
/// is possible now. `excess`: the level's bytes above its capacity.
Plan step_down(const TreeShape& shape, const std::vector<Level>& levels, int level, int level0_limit, double excess,
               const PolicyContext& context) {
  const Level& here = levels[static_cast<std::size_t>(level)];
  const Level& below = levels[static_cast<std::size_t>(level) + 1];
  const PlanTarget target{below.target(), level + 1};
  if (here.count() != 1 || (target.run == 0 && here.busy)) return {};
  if (below.count() > 1) return {};  // the runs of the next level are merged into one first
  const RunShape* const run_below = below.with_files.empty() ? nullptr : below.with_files.front();
  const std::vector<FileCandidate> candidates = candidates_of(*here.with_files.front(), run_below, context.file_choice);
  const auto at = static_cast<std::size_t>(level);
  const Bytes cursor = at < shape.cursors.size() ? Bytes(shape.cursors[at]) : Bytes();
  const FileCandidate* chosen = choose_file(context.file_choice, candidates, cursor);
  if (chosen == nullptr) return {};
  Overlap overlap = *overlap_with(below, chosen->file->range());
  std::vector<PlanInput> inputs{{here.with_files.front()->id, {chosen->file->num}}};
  if (!overlap.input.files.empty()) {
    // While level 0 waits for its merge, take no more files of level 1 than necessary: the merge of level 0 needs them.
    const bool level0_waits = level == 1 && levels[0].count() >= level0_limit;
    const std::uint64_t most = level0_waits ? 0 : chosen->file->bytes + overlap.bytes;
    inputs.front().files = chosen_and_spanned(*here.with_files.front(), *chosen->file, *below.with_files.front(), most);
    inputs.push_back(std::move(overlap.input));
  } else if (may_move(shape, *chosen->file, target, context.now)) {
    inputs.front().files =
        chosen_and_next(shape, *here.with_files.front(), *chosen->file, run_below, target, excess, context.now);
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
  bool older = false;  // true for runs older than the target
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
  // The sort is stable: of equal scores the smallest level stays first.
  std::stable_sort(due.begin(), due.end(), [](const Due& a, const Due& b) { return a.score > b.score; });
  if (!due.empty() && levels[0].count() >= level0_limit) {
    if (Plan plan = merge_level0(shape, levels, context); plan.empty()) {
      std::erase_if(due, [](const Due& d) { return d.level == 0 || (d.level == 1 && !d.surplus); });
    }
  }
  for (const Due& d : due) {
    const double excess =
        static_cast<double>(levels[static_cast<std::size_t>(d.level)].idle_bytes) - capacity_bytes(shape, d.level);
    Plan plan = d.level == 0 ? merge_level0(shape, levels, context)
                : d.surplus  ? merge_surplus(levels, d.level)
                             : step_down(shape, levels, d.level, level0_limit, excess, context);
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
    // The excess is merged into the next level: each byte of the excess rewrites bytes_at(level + 1) / size bytes there.
    if (arriving > 0) debt += arriving * (1 + bytes_at(level + 1) / size);
  }
  return saturating(debt);
}

std::string LeveledPolicy::check(const TreeShape& shape) const {
  const std::vector<Level> levels = levels_of(shape);
  // The runs of level 0 are merged into level 1 once their number reaches the limit, so a level 0 at rest has fewer.
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

// Level 0 gets further runs while its merge into level 1 runs. That merge rewrites up to max(size_ratio, level0_runs) +
// level0_runs memtables.
int LeveledPolicy::slowdown_runs() const { return slowdown_at(vectors_.run_limit(0)); }
int LeveledPolicy::stop_runs() const { return stop_at(vectors_.run_limit(0)); }

}  // namespace ebbtide
