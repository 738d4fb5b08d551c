// A step down, for trees whose files go down singly (Policy::by_file). It merges the expired file into the next older run with
// files that it overlaps.
//
//   from level 0          All overlapping runs of level 0 go down: their files will expire soon, and would cause another
//                         rewrite of the next run.
//   into the final run    The most urgent final file that the expired file overlaps is the target. All files of the expired
//                         file's run that overlap the target are merged into it, so that it is written once.
//   over an empty level   If a level between has no files in the expired file's range, the file moves to that level. The file
//                         stays there until its time is over, so that the run below is written once for all such files.
#include <algorithm>

#include "policy/fade.h"
#include "policy/fade_strategy.h"

namespace ebbtide {
namespace {

class StepDown {
 public:
  StepDown(const FadeQuery& query, const ExpiredFile& e)
      : query_(query), shape_(query.shape), expired_(e), level_(shape_.runs[e.run].level), range_(e.file->range()) {}

  std::optional<Proposal> propose() {
    const std::size_t last = last_run_that_goes();
    if (level_ > 0 && has_surplus_run(last)) return std::nullopt;
    if (level_ == 0) take_level0(last);
    const std::size_t below = next_overlapping(shape_, last + 1, range_);
    if (below == shape_.runs.size()) return std::nullopt;  // no run below level 0 has files in the range
    const std::optional<PlanTarget> rest = resting_place(below);
    if (level_ > 0) take_from_level(below, rest.has_value());
    if (rest) return merge_into(*rest);
    if (next_overlapping(shape_, last + 1, range_) < below) return std::nullopt;  // a run in between now has files in the range
    take_and_grow(below);
    if (list_.reserved.bytes > kLargestMerge * std::max<std::uint64_t>(shape_.file_bytes, 1)) return std::nullopt;
    return merge_into({shape_.runs[below].id, shape_.runs[below].level});
  }

 private:
  /// Returns the index of the oldest run of level 0, or of the file's own run.
  [[nodiscard]] std::size_t last_run_that_goes() const {
    std::size_t last = expired_.run;
    while (level_ == 0 && last + 1 < shape_.runs.size() && shape_.runs[last + 1].level == 0) ++last;
    return last;
  }
  /// Returns true if the level has an older run, too, which another policy left there.
  [[nodiscard]] bool has_surplus_run(std::size_t run) const {
    return run + 1 < shape_.runs.size() && shape_.runs[run + 1].level == level_;
  }

  void take_level0(std::size_t last) {
    for (std::size_t run = 0; run <= last; ++run) take_and_grow(run);
  }
  /// Adds the file to the inputs. If run `below` is final in the range, adds all files of the run that overlap the most urgent
  /// target.
  void take_from_level(std::size_t below, bool rests) {
    FileSpan files = files_in(shape_.runs[expired_.run], range_);  // so far only the file itself
    if (!rests && is_final_in(shape_, below, range_)) {
      files = files_in(shape_.runs[expired_.run], most_urgent_target(query_, expired_, below).range());
      range_ = hull(files.front().range(), files.back().range());
    }
    list_.take(shape_.runs[expired_.run], files);
  }
  /// Adds the files of a run in the range to the inputs, and grows the range to contain them.
  void take_and_grow(std::size_t run) {
    const auto files = files_in(shape_.runs[run], range_);
    list_.take(shape_.runs[run], files);
    if (!files.empty()) range_ = hull(range_, hull(files.front().range(), files.back().range()));
  }

  /// Examines the levels between the file's level and the level of run `below`. Returns the first of them on which the file's
  /// time is not over yet; no value if there is none.
  [[nodiscard]] std::optional<PlanTarget> resting_place(std::size_t below) const {
    for (std::size_t run = expired_.run + 1; run < below; ++run) {
      const RunShape& between = shape_.runs[run];
      const bool oldest_of_its_level = between.level != shape_.runs[run + 1].level;
      if (between.level == level_ || !oldest_of_its_level) continue;
      if (!query_.due.is_expired(*expired_.file, between.level)) return PlanTarget{between.id, between.level};
    }
    return std::nullopt;
  }

  [[nodiscard]] Proposal merge_into(const PlanTarget& target) {
    Proposal proposal{.reserved = list_.reserved};
    proposal.plan.action = Merge{std::move(list_.inputs), target};
    return proposal;
  }

  const FadeQuery& query_;
  const TreeShape& shape_;
  const ExpiredFile& expired_;
  const int level_;
  KeyRange range_;  // hull of the ranges of the files taken so far
  InputList list_;
};

}  // namespace

std::optional<Proposal> propose_step_down(const FadeQuery& query, const ExpiredFile& e) { return StepDown(query, e).propose(); }

}  // namespace ebbtide
