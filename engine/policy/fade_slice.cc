// A slice merges the key range of some files (the *targets*) of the oldest run that overlaps the expired file. It takes the files
// in that range from several runs: from the newest run with an expired file there down to the targets' run. They are merged into
// the targets. No run is added, removed or moved.
//
// A slice begins with the target below the file with the earliest deadline, and grows over neighbours, up to kSliceFiles or
// kOneGoFiles. A file that lies across an end of the slice is rewritten only to be cut there; larger slices cut fewer files.
// While disk space is short, a slice does not grow, and takes the target for which it is smallest.
#include <algorithm>

#include "policy/fade.h"
#include "policy/fade_strategy.h"
#include "tree/frozen.h"

namespace ebbtide {
namespace {

/// The most targets of a file for which slices are compared while disk space is short. Computing a slice takes microseconds.
constexpr std::size_t kMostTargets = 16;

class SliceDown {
 public:
  SliceDown(const FadeQuery& query, const ExpiredFile& e)
      : query_(query),
        shape_(query.shape),
        expired_(e),
        in_one_go_(query.goes_in_one(e)),
        below_(oldest_overlapping(shape_, e.run + 1, e.file->range())) {}

  [[nodiscard]] Proposal propose() const {
    Draft draft = query_.room_is_short ? smallest() : grown();
    Proposal proposal{.reserved = draft.list.reserved};
    const PlanTarget target{shape_.runs[below_].id, shape_.runs[below_].level};
    proposal.plan.action = Slice{std::move(draft.list.inputs), std::move(draft.range), target};
    return proposal;
  }

 private:
  struct Draft {
    KeyRange range;
    InputList list;
  };

  [[nodiscard]] Draft grown() const {
    const FileShape& target = most_urgent_target(query_, expired_, below_);
    const std::size_t newest = newest_run_of(target.range());
    Draft draft = cut(newest, target.range());
    for (bool grows = true; grows;) {
      grows = false;
      for (const KeyRange& wider : {over_whole_files(newest, draft.range), over_next_target(draft.range)}) {
        if (wider == draft.range || frozen_at(shape_.frozen, wider) != nullptr) continue;
        Draft next = cut(newest, wider);
        if (next.list.reserved.busy || next.list.reserved.bytes > most_bytes()) continue;
        draft = std::move(next);
        grows = true;
        break;
      }
    }
    return draft;
  }
  [[nodiscard]] std::uint64_t most_bytes() const { return shape_.file_bytes * (in_one_go_ ? kOneGoFiles : kSliceFiles); }

  /// Returns the smallest slice of a single target. Compares at most kMostTargets targets, from the most urgent one on, and
  /// wraps around. Takes a busy target only if all targets are busy.
  [[nodiscard]] Draft smallest() const {
    const FileSpan targets = files_in(shape_.runs[below_], expired_.file->range());
    const FileNum most_urgent = most_urgent_target(query_, expired_, below_).num;
    std::size_t first = 0;
    for (auto file = targets.begin(); file->num != most_urgent; ++file) ++first;
    std::optional<Draft> best;
    for (std::size_t i = 0; i < std::min(targets.size(), kMostTargets); ++i) {
      const KeyRange range = targets[(first + i) % targets.size()].range();
      Draft draft = cut(newest_run_of(range), range);
      if (!best || is_smaller(draft.list.reserved, best->list.reserved)) best = std::move(draft);
    }
    return std::move(*best);
  }
  static bool is_smaller(const Reservation& a, const Reservation& b) {
    if (a.busy != b.busy) return b.busy;
    return a.bytes < b.bytes;
  }

  /// Returns the newest run of the slice: usually the newest run with an expired file in the range, so that the target is written
  /// once. If files go down in one go (in_one_go_), returns the newest run below level 0, whether its files have expired or not.
  /// Then no pending deletes below level 0 are left in the range.
  [[nodiscard]] std::size_t newest_run_of(const KeyRange& range) const {
    std::size_t run = 0;
    if (in_one_go_) {
      while (shape_.runs[run].level == 0) ++run;
    } else {
      while (run < expired_.run && !has_expired(shape_.runs[run], range)) ++run;
    }
    return run;
  }
  [[nodiscard]] bool has_expired(const RunShape& run, const KeyRange& range) const {
    const auto files = files_in(run, range);
    return std::any_of(files.begin(), files.end(), [&](const FileShape& file) { return query_.due.is_expired(file, run.level); });
  }

  [[nodiscard]] Draft cut(std::size_t newest, const KeyRange& range) const {
    Draft draft{range, {}};
    for (std::size_t run = newest; run <= below_; ++run) draft.list.take(shape_.runs[run], files_in(shape_.runs[run], range));
    return draft;
  }
  /// Returns the range extended to whole files of the younger runs, and then to whole targets.
  [[nodiscard]] KeyRange over_whole_files(std::size_t newest, KeyRange range) const {
    for (std::size_t run = newest; run <= below_; ++run) {
      const auto files = files_in(shape_.runs[run], range);
      if (!files.empty()) range = hull(range, hull(files.front().range(), files.back().range()));
    }
    return range;
  }
  /// If the file goes down in one go, returns the range extended over the next target. Files of the levels between are then cut
  /// at that target's end. Otherwise returns the range unchanged.
  [[nodiscard]] KeyRange over_next_target(const KeyRange& range) const {
    const RunShape& run = shape_.runs[below_];
    const std::size_t next = run.overlapping(range.start, range.end).second;
    return in_one_go_ && next < run.files.size() ? hull(range, run.files[next].range()) : range;
  }

  const FadeQuery& query_;
  const TreeShape& shape_;
  const ExpiredFile& expired_;
  const bool in_one_go_;
  const std::size_t below_;  // index of the run that has the targets
};

}  // namespace

Proposal propose_slice(const FadeQuery& query, const ExpiredFile& e) { return SliceDown(query, e).propose(); }

}  // namespace ebbtide
