// A step down, for trees that go file by file (Policy::by_file): a merge with the files that the expired file overlaps in the next
// older run that has any.
//
//   from level 0          All runs of level 0 go that overlap: the others will expire soon, and would cause another rewrite of the
//                         next run.
//   above the final run   The final file under the oldest obligation is the target. It absorbs everything above it in the run above,
//                         so that it is written once.
//   over an empty level   If a level between has no files in its range, the file moves there. It rests for as long as that level's
//                         time lasts, so that the run below is written once for all such files.
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
    if (below == shape_.runs.size()) return std::nullopt;  // only level 0 is older
    const std::optional<PlanTarget> rest = resting_place(below);
    if (level_ > 0) take_from_level(below, rest.has_value());
    if (rest) return merge_into(*rest);
    if (next_overlapping(shape_, last + 1, range_) < below) return std::nullopt;  // grown range meets a run in between
    take_and_grow(below);
    if (list_.reserved.bytes > kLargestMerge * std::max<std::uint64_t>(shape_.file_bytes, 1)) return std::nullopt;
    return merge_into({shape_.runs[below].id, shape_.runs[below].level});
  }

 private:
  /// The oldest run of level 0, or the file's own run.
  [[nodiscard]] std::size_t last_run_that_goes() const {
    std::size_t last = expired_.run;
    while (level_ == 0 && last + 1 < shape_.runs.size() && shape_.runs[last + 1].level == 0) ++last;
    return last;
  }
  /// True if the level has another, older run, left by an earlier policy.
  [[nodiscard]] bool has_surplus_run(std::size_t run) const {
    return run + 1 < shape_.runs.size() && shape_.runs[run + 1].level == level_;
  }

  void take_level0(std::size_t last) {
    for (std::size_t run = 0; run <= last; ++run) take_and_grow(run);
  }
  /// Takes the file; above the final run, all files over the most urgent target.
  void take_from_level(std::size_t below, bool rests) {
    std::span<const FileShape> files(expired_.file, 1);
    if (!rests && is_final_in(shape_, below, range_)) {
      files = files_in(shape_.runs[expired_.run], most_urgent_target(query_, expired_, below).range());
      range_ = hull(files.front().range(), files.back().range());
    }
    list_.take(shape_.runs[expired_.run], files);
  }
  /// Takes the files of a run in the range, and grows the range over them.
  void take_and_grow(std::size_t run) {
    const auto files = files_in(shape_.runs[run], range_);
    list_.take(shape_.runs[run], files);
    if (!files.empty()) range_ = hull(range_, hull(files.front().range(), files.back().range()));
  }

  /// A level between the file's and that of run `below`, whose time is not over yet for the file; none if there is none.
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
  KeyRange range_;  // of the files taken so far
  InputList list_;
};

}  // namespace

std::optional<Proposal> propose_step_down(const FadeQuery& query, const ExpiredFile& e) { return StepDown(query, e).propose(); }

}  // namespace ebbtide
