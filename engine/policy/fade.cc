#include "policy/fade.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/oldest.h"
#include "tree/frozen.h"

namespace ebbtide {
namespace {

/// The part of its time that a delete may spend above level 1, if deadlines are shorter than the tree takes to fill.
constexpr double kLevel0Share = 0.5;

/// While disk space is short: how many expired files are tried, and how many targets of each. One try costs microseconds.
constexpr std::size_t kMostTried = 64, kMostTargets = 16;

/// A slice takes less than four files of each run: one of the target's size, and one that straddles each end.
constexpr std::uint64_t kPartsOfSlice = 4;
constexpr std::uint64_t kSmallestPart = 64;  // of the target size

/// A file with pending deletes, and its place.
struct Expired {
  std::size_t run = 0;
  const FileShape* file = nullptr;
  bool final = false;
};

/// The next run from `run` on with files in the range, and the oldest; shape.runs.size() if there is none.
std::size_t next_met(const TreeShape& shape, std::size_t run, const KeyRange& range) {
  for (; run < shape.runs.size(); ++run) {
    const auto [first, last] = shape.runs[run].overlapping(range.start, range.end);
    if (first != last) return run;
  }
  return run;
}
std::size_t oldest_met(const TreeShape& shape, std::size_t run, const KeyRange& range) {
  std::size_t oldest = shape.runs.size();
  for (; run < shape.runs.size(); ++run) {
    const auto [first, last] = shape.runs[run].overlapping(range.start, range.end);
    if (first != last) oldest = run;
  }
  return oldest;
}
/// True if no run older than `run` has files in the range.
bool is_final(const TreeShape& shape, std::size_t run, const KeyRange& range) {
  return next_met(shape, run + 1, range) == shape.runs.size();
}

std::span<const FileShape> files_in(const RunShape& run, const KeyRange& range) {
  const auto [first, last] = run.overlapping(range.start, range.end);
  return std::span(run.files).subspan(first, last - first);
}

/// Builds a plan from runs, newest first.
struct Draft {
  std::vector<PlanInput> inputs{};
  PlanTarget target{};
  std::uint64_t bytes = 0;
  bool busy = false;
  const FileShape* largest = nullptr;  // and the run that it is in
  RunId largest_run = 0;

  void take(const RunShape& run, std::span<const FileShape> files) {
    if (files.empty()) return;
    PlanInput& input = inputs.emplace_back(PlanInput{run.id, {}});
    for (const FileShape& file : files) {
      input.files.push_back(file.num);
      bytes += file.bytes;
      busy |= file.busy;
      if (largest != nullptr && largest->bytes >= file.bytes) continue;
      largest = &file;
      largest_run = run.id;
    }
  }
};

/// A plan for a file, and the most bytes that it writes.
struct Sized {
  Plan plan{};
  std::uint64_t bytes = 0;
  const FileShape* largest = nullptr;  // of its inputs, null if that is all it takes
  RunId largest_run = 0;
};

/// One query: the shape and values derived from it.
class Fade {
 public:
  Fade(const TreeShape& shape, const Policy& policy, const FadeContext& context)
      : shape_(shape),
        context_(context),
        by_file_(policy.by_file()),
        short_(is_short(context.room, shape.file_bytes)),
        shares_(shape, policy) {}

  Plan next() {
    std::vector<Expired> expired = find_expired();
    std::sort(expired.begin(), expired.end(), [this](const Expired& a, const Expired& b) { return goes_first(a, b); });
    std::optional<Sized> best;
    bool best_late = false;
    std::size_t tried = 0;
    for (const Expired& e : expired) {
      if (std::binary_search(context_.skip.begin(), context_.skip.end(), e.file->num)) continue;
      const bool late = is_late(*e.file);
      if (context_.late_only && !late) continue;
      if (context_.over_budget && !late && !asked_for(*e.file)) continue;
      Sized sized = plan_for(e);
      if (sized.plan.empty()) continue;
      sized.plan.reason = Reason::kDeadline;
      sized.plan.urgent = late;
      if (!short_) return std::move(sized.plan);
      if (!best || is_better(sized, late, *best, best_late)) {
        best = std::move(sized);
        best_late = late;
      }
      if (++tried == kMostTried) break;
    }
    if (!best) return {};
    return fits(*best) ? std::move(best->plan) : split_for(std::move(*best));
  }

 private:
  [[nodiscard]] bool asked_for(const FileShape& file) const {
    return file.oldest_birth != 0 && file.oldest_birth <= shape_.purge_before;
  }
  /// The order of work: PURGE.NOW comes before all other deadlines.
  [[nodiscard]] Millis due(const FileShape& file) const {
    if (asked_for(file)) return 0;
    return file.deadline == 0 ? std::numeric_limits<Millis>::max() : file.deadline;
  }
  [[nodiscard]] bool is_late(const FileShape& file) const {
    return file.deadline != 0 && context_.now >= expires_at(file.oldest_birth, file.deadline, context_.margin / 2, 1);
  }

  [[nodiscard]] bool fits(const Sized& sized) const { return sized.bytes <= context_.room; }
  /// Order while disk space is short: plans that fit, then late ones, then the smallest.
  [[nodiscard]] bool is_better(const Sized& a, bool a_late, const Sized& b, bool b_late) const {
    if (fits(a) != fits(b)) return fits(a);
    if (a_late != b_late) return a_late;
    return a.bytes < b.bytes;
  }
  /// The first step of a plan that does not fit: splits its largest file, so that the next slice takes fewer bytes. Returns the
  /// plan itself if no file can be split: it succeeds anyway if its inputs have more dead bytes than it lacks space.
  [[nodiscard]] Plan split_for(Sized sized) const {
    const std::uint64_t part = part_bytes(context_.room, shape_.runs.size(), shape_.file_bytes);
    const FileShape* file = sized.largest;
    const bool can = file != nullptr && !file->busy && file->bytes <= context_.room && file->bytes >= 2 * part &&
                     file->entries >= 2 * (file->bytes / part);  // else its entries are too large
    if (!can) return std::move(sized.plan);
    sized.plan.action = Rewrite{sized.largest_run, file->num};
    return std::move(sized.plan);
  }

  [[nodiscard]] bool is_expired(const RunShape& run, const FileShape& file, bool final) const {
    if (asked_for(file)) return true;
    if (file.oldest_birth == 0 || file.deadline == 0) return false;
    const double share = final || !by_file_ ? 1 : shares_.level(run.level);
    return context_.now >= expires_at(file.oldest_birth, file.deadline, context_.margin, share);
  }

  [[nodiscard]] std::vector<Expired> find_expired() const {
    std::vector<Expired> expired;
    for (std::size_t run = 0; run < shape_.runs.size(); ++run) {
      for (const FileShape& file : shape_.runs[run].files) {
        // A bottommost file has more time than any other. So a file that has not expired by the other rules needs no check of the
        // runs below.
        if (!is_expired(shape_.runs[run], file, false)) continue;
        const bool final = is_final(shape_, run, file.range());
        if (is_expired(shape_.runs[run], file, final)) expired.push_back({run, &file, final});
      }
    }
    return expired;
  }

  [[nodiscard]] bool goes_first(const Expired& a, const Expired& b) const {
    if (due(*a.file) != due(*b.file)) return due(*a.file) < due(*b.file);
    if (a.file->oldest_birth != b.file->oldest_birth) return a.file->oldest_birth < b.file->oldest_birth;
    const int level_a = shape_.runs[a.run].level, level_b = shape_.runs[b.run].level;
    if (level_a != level_b) return level_a < level_b;
    const auto tombstones = [](const FileShape& file) { return file.tombstones + file.range_tombstones; };
    if (tombstones(*a.file) != tombstones(*b.file)) return tombstones(*a.file) > tombstones(*b.file);
    if (a.run != b.run) return a.run < b.run;
    return a.file->smallest < b.file->smallest;
  }

  [[nodiscard]] Sized plan_for(const Expired& e) const {
    if (e.final) {
      Sized sized{.bytes = e.file->bytes};
      if (!e.file->busy) sized.plan.action = Rewrite{shape_.runs[e.run].id, e.file->num};
      return sized;
    }
    if (by_file_ && !goes_in_one(e)) {
      if (std::optional<Draft> down = step_down(e); down && (!short_ || down->bytes <= context_.room)) {
        Sized sized = sized_of(*down);
        if (!down->busy) sized.plan.action = Merge{std::move(down->inputs), down->target};
        return sized;
      }
    }
    return slice(e);
  }
  static Sized sized_of(const Draft& draft) {
    return {.bytes = draft.bytes, .largest = draft.largest, .largest_run = draft.largest_run};
  }

  /// True if a file's pending deletes go to the bottommost run in one slice. Level 0 is left by a step first: its files span all
  /// keys.
  [[nodiscard]] bool goes_in_one(const Expired& e) const {
    return by_file_ && shares_.in_one_go() && shape_.runs[e.run].level > 0;
  }

  /// The merge that moves the file one level down; none if that needs slices.
  [[nodiscard]] std::optional<Draft> step_down(const Expired& e) const {
    const int level = shape_.runs[e.run].level;
    std::size_t last = e.run;  // of the runs that go: all of level 0
    while (level == 0 && last + 1 < shape_.runs.size() && shape_.runs[last + 1].level == 0) ++last;
    if (level > 0 && last + 1 < shape_.runs.size() && shape_.runs[last + 1].level == level) return std::nullopt;  // surplus

    Draft draft;
    KeyRange range = e.file->range();
    std::span<const FileShape> first(e.file, 1);
    for (std::size_t run = 0; level == 0 && run <= last; ++run) take_over(run, &range, &draft);
    const std::size_t below = next_met(shape_, last + 1, range);
    if (below == shape_.runs.size()) return std::nullopt;  // only level 0 is older
    const std::optional<PlanTarget> rest = rest_above(e, below);
    if (level > 0 && !rest && is_final(shape_, below, range)) {
      first = files_in(shape_.runs[e.run], oldest_target(e, below).range());
      range = hull(first.front().range(), first.back().range());
    }
    if (level > 0) draft.take(shape_.runs[e.run], first);
    if (rest) {
      draft.target = *rest;
      return draft;
    }
    if (next_met(shape_, last + 1, range) < below) return std::nullopt;  // grown over files of a run in between
    take_over(below, &range, &draft);
    if (draft.bytes > kLargestMerge * std::max<std::uint64_t>(shape_.file_bytes, 1)) return std::nullopt;
    draft.target = {shape_.runs[below].id, shape_.runs[below].level};
    return draft;
  }

  /// Takes the files of a run in the range, and grows it over them.
  void take_over(std::size_t run, KeyRange* range, Draft* draft) const {
    const auto files = files_in(shape_.runs[run], *range);
    draft->take(shape_.runs[run], files);
    if (!files.empty()) *range = hull(*range, hull(files.front().range(), files.back().range()));
  }

  /// A level between the file's and that of run `below`, with no files in its range. There the file waits for later ones until
  /// its time on that level is over, so that `below` is written once for all of them. None if that time is over already.
  [[nodiscard]] std::optional<PlanTarget> rest_above(const Expired& e, std::size_t below) const {
    const int level = shape_.runs[e.run].level;
    for (std::size_t run = e.run + 1; run < below; ++run) {
      const RunShape& between = shape_.runs[run];
      if (between.level == level || between.level == shape_.runs[run + 1].level) continue;  // the oldest run of its level
      if (between.level == shape_.runs[below].level || is_expired(between, *e.file, false)) continue;
      return PlanTarget{between.id, between.level};
    }
    return std::nullopt;
  }

  /// Returns the file in run `below`, overlapped by the expired file, that is under the oldest obligation; of equals the
  /// smallest.
  [[nodiscard]] const FileShape& oldest_target(const Expired& e, std::size_t below) const {
    const FileShape* oldest = nullptr;
    Millis oldest_deadline = 0;
    for (const FileShape& target : files_in(shape_.runs[below], e.file->range())) {
      const Millis deadline = earliest_over(target, below);
      if (oldest != nullptr && deadline >= oldest_deadline) continue;
      oldest = &target;
      oldest_deadline = deadline;
    }
    return *oldest;
  }

  /// The earliest deadline of expired files above `target`.
  [[nodiscard]] Millis earliest_over(const FileShape& target, std::size_t below) const {
    Millis earliest = std::numeric_limits<Millis>::max();
    const KeyRange range = target.range();
    for (std::size_t run = 0; run < below; ++run) {
      for (const FileShape& file : files_in(shape_.runs[run], range)) {
        if (is_expired(shape_.runs[run], file, false)) earliest = std::min(earliest, due(file));
      }
    }
    return earliest;
  }

  /// A slice under construction.
  struct SliceDraft {
    Draft draft;
    KeyRange range;
  };
  [[nodiscard]] Sized slice(const Expired& e) const {
    const std::size_t below = oldest_met(shape_, e.run + 1, e.file->range());
    SliceDraft slice = short_ ? smallest_slice(e, below) : grown_slice(e, below);
    Sized sized = sized_of(slice.draft);
    if (!slice.draft.busy) {
      sized.plan.action =
          Slice{std::move(slice.draft.inputs), std::move(slice.range), {shape_.runs[below].id, shape_.runs[below].level}};
    }
    return sized;
  }

  /// The target under the oldest obligation, and enough of its neighbours to make the straddling files worth writing.
  [[nodiscard]] SliceDraft grown_slice(const Expired& e, std::size_t below) const {
    KeyRange range = oldest_target(e, below).range();
    const std::size_t from = newest_of(e, range);
    const std::uint64_t most = shape_.file_bytes * (goes_in_one(e) ? kOneGoFiles : kSliceFiles);
    Draft draft = cut(from, below, range);
    for (bool grows = true; grows;) {
      grows = false;
      for (const KeyRange& wider : {widened(from, below, range), goes_in_one(e) ? with_next(below, range) : range}) {
        if (wider.start == range.start && wider.end == range.end) continue;
        if (frozen_at(shape_.frozen, wider) != nullptr) continue;
        Draft next = cut(from, below, wider);
        if (next.busy || next.bytes > most) continue;
        range = wider;
        draft = std::move(next);
        grows = true;
        break;
      }
    }
    return {std::move(draft), std::move(range)};
  }

  /// A single target, the one with the smallest slice. Candidates start at the one under the oldest obligation and wrap around; a
  /// busy one is taken only if all are busy.
  [[nodiscard]] SliceDraft smallest_slice(const Expired& e, std::size_t below) const {
    const std::span<const FileShape> targets = files_in(shape_.runs[below], e.file->range());
    const auto first = static_cast<std::size_t>(&oldest_target(e, below) - targets.data());
    std::optional<SliceDraft> best;
    for (std::size_t i = 0; i < std::min(targets.size(), kMostTargets); ++i) {
      KeyRange range = targets[(first + i) % targets.size()].range();
      Draft draft = cut(newest_of(e, range), below, range);
      const bool better = !best || (draft.busy != best->draft.busy ? best->draft.busy : draft.bytes < best->draft.bytes);
      if (better) best = {std::move(draft), std::move(range)};
    }
    return std::move(*best);
  }
  /// The newest run of a slice.
  [[nodiscard]] std::size_t newest_of(const Expired& e, const KeyRange& range) const {
    return goes_in_one(e) ? first_below_level0() : newest_expired(e, range);
  }

  /// The newest run that takes part. Expired files of newer runs take part too, so that the target is written once.
  [[nodiscard]] std::size_t newest_expired(const Expired& e, const KeyRange& range) const {
    for (std::size_t run = 0; run < e.run; ++run) {
      for (const FileShape& file : files_in(shape_.runs[run], range)) {
        if (is_expired(shape_.runs[run], file, false)) return run;
      }
    }
    return e.run;
  }
  /// The newest run below level 0; there is one. All runs from there on take part, expired or not. Then the rest of the range has
  /// no pending deletes, and the target is written once per deadline.
  [[nodiscard]] std::size_t first_below_level0() const {
    std::size_t run = 0;
    while (shape_.runs[run].level == 0) ++run;
    return run;
  }

  [[nodiscard]] Draft cut(std::size_t from, std::size_t below, const KeyRange& range) const {
    Draft draft;
    for (std::size_t run = from; run <= below; ++run) draft.take(shape_.runs[run], files_in(shape_.runs[run], range));
    return draft;
  }

  /// The range grown to whole files of the younger runs, and then to whole files of the target's.
  [[nodiscard]] KeyRange widened(std::size_t from, std::size_t below, KeyRange range) const {
    const auto cover = [&](std::size_t run) {
      const auto files = files_in(shape_.runs[run], range);
      if (!files.empty()) range = hull(range, hull(files.front().range(), files.back().range()));
    };
    for (std::size_t run = from; run < below; ++run) cover(run);
    cover(below);
    return range;
  }

  /// The range and the next file of run `below`.
  [[nodiscard]] KeyRange with_next(std::size_t below, const KeyRange& range) const {
    const RunShape& run = shape_.runs[below];
    const std::size_t next = run.overlapping(range.start, range.end).second;
    return next < run.files.size() ? hull(range, run.files[next].range()) : range;
  }

  const TreeShape& shape_;
  const FadeContext& context_;
  const bool by_file_;
  const bool short_;  // of room
  const TtlShares shares_;
};

}  // namespace

bool is_short(std::uint64_t room, std::uint64_t file_bytes) {
  return room / kLargestMerge < std::max<std::uint64_t>(file_bytes, 1);
}

std::uint64_t part_bytes(std::uint64_t room, std::size_t runs, std::uint64_t file_bytes) {
  const std::uint64_t part = room / (kPartsOfSlice * std::max<std::size_t>(runs, 1));
  return std::min(std::max(part, file_bytes / kSmallestPart), file_bytes);
}

std::vector<double> level_ttls(double deadline, double margin, std::span<const double> capacities) {
  double all = 0;
  for (const double capacity : capacities) all += capacity;
  std::vector<double> ttls;
  for (const double capacity : capacities) ttls.push_back(all > 0 ? (deadline - margin) * capacity / all : 0);
  return ttls;
}

TtlShares::TtlShares(const TreeShape& shape, const Policy& policy) {
  // Level 0 is always above another run: a flushed memtable is bottommost only in an empty tree.
  const int last = std::max(1, shape.last_level());
  std::vector<double> capacities;
  const double most =
      shape.deadline_bytes == 0 ? std::numeric_limits<double>::infinity() : static_cast<double>(shape.deadline_bytes);
  capacities.push_back(std::min(most, static_cast<double>(std::max<std::uint64_t>(shape.memtable_bytes, 1))));
  double all = 0;
  for (int level = 0; level < last; ++level) {
    const double capacity = policy.capacity_bytes(shape, level);
    all += capacity;
    capacities.push_back(std::min(most, capacity));
  }
  double sum = 0;
  for (const double ttl : level_ttls(1, 0, capacities)) shares_.push_back(sum += ttl);
  in_one_go_ = all > most;
  if (in_one_go_) {
    shares_[1] = std::max(shares_[1], kLevel0Share);
    std::fill(shares_.begin() + 2, shares_.end(), 1.0);
  }
  shares_.back() = 1;
}

double TtlShares::level(int level) const {
  const auto at = static_cast<std::size_t>(level) + 1;
  return at < shares_.size() ? shares_[at] : 1;
}

Millis expires_at(Millis birth, Millis deadline, Millis margin, double share) {
  const Millis all = deadline > birth ? deadline - birth : 0;
  const Millis time = all - std::min(margin, all / 2);
  return birth + (share >= 1 ? time : static_cast<Millis>(static_cast<double>(time) * share));
}

Plan urgent(const TreeShape& shape, const Policy& policy, const FadeContext& context) {
  return Fade(shape, policy, context).next();
}

FadeWork fade_work(const TreeShape& shape, Millis now) {
  FadeWork work;
  std::map<FileNum, std::pair<Millis, std::uint64_t>> due;  // by file: latest time, and bytes
  const auto add = [&](const FileShape& file, Millis deadline) {
    auto& entry = due.try_emplace(file.num, deadline, file.bytes).first->second;
    entry.first = std::min(entry.first, deadline);
  };
  for (std::size_t run = 0; run < shape.runs.size(); ++run) {
    for (const FileShape& file : shape.runs[run].files) {
      if (file.oldest_birth == 0) continue;
      work.oldest_birth = older(work.oldest_birth, file.oldest_birth);
      if (file.deadline == 0) continue;
      work.deadline = older(work.deadline, file.deadline);
      add(file, file.deadline);
      const KeyRange range = file.range();
      const std::size_t below = oldest_met(shape, run + 1, range);
      if (below == shape.runs.size()) continue;
      for (const FileShape& target : files_in(shape.runs[below], range)) add(target, file.deadline);
    }
  }
  std::vector<std::pair<Millis, std::uint64_t>> by_deadline;
  for (const auto& [file, entry] : due) by_deadline.push_back(entry);
  std::sort(by_deadline.begin(), by_deadline.end());
  constexpr Millis kSoon = 1000;
  for (const auto& [deadline, bytes] : by_deadline) {
    work.bytes += bytes;
    const Millis left = deadline > now + kSoon ? deadline - now : kSoon;
    work.bytes_per_ms = std::max(work.bytes_per_ms, static_cast<double>(work.bytes) / static_cast<double>(left));
  }
  return work;
}

}  // namespace ebbtide
