// The two ways in which a file's pending deletes go down: a step into the next older run, and a slice into the oldest. Each is a
// function from values to a proposal; policy/fade.cc chooses among the proposals. This header has what both need: the query, and
// the files that a plan takes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/fade_due.h"

namespace ebbtide {

/// A file with pending deletes whose time on its level is over.
struct ExpiredFile {
  std::size_t run = 0;  ///< index of its run: smaller is newer
  const FileShape* file = nullptr;
  bool final = false;  ///< no older run overlaps it
};

/// The input of a strategy, beside the file.
struct FadeQuery {
  const TreeShape& shape;
  const DueTimes& due;
  bool by_file = false;        ///< Policy::by_file
  bool room_is_short = false;  ///< is_short() of FadeContext::room

  /// True if a file's pending deletes go to the bottommost run in one slice. A file of level 0 first makes a step down, since
  /// files of level 0 span all keys.
  [[nodiscard]] bool goes_in_one(const ExpiredFile& e) const { return by_file && due.in_one_go() && shape.runs[e.run].level > 0; }
};

/// The files that a plan takes.
struct Reservation {
  std::uint64_t bytes = 0;  ///< of the inputs: the plan writes at most as many
  bool busy = false;        ///< a running job has reserved an input: the plan must wait
  /// The largest input and its run; null if the plan takes one file alone.
  const FileShape* largest = nullptr;
  RunId largest_run = 0;
};

/// The result of a strategy.
struct Proposal {
  Plan plan{};  ///< only `action` is set
  Reservation reserved{};
};

/// A merge that moves the file one level down, from level 0 with all runs there. Returns none if that needs a slice: if the level
/// has surplus runs, there is a run in between, or the merge would be very large (kLargestMerge).
[[nodiscard]] std::optional<Proposal> propose_step_down(const FadeQuery& query, const ExpiredFile& e);

/// A merge of one key range, from the file's run or a newer one down to the oldest run that overlaps the file. `e` is not final.
[[nodiscard]] Proposal propose_slice(const FadeQuery& query, const ExpiredFile& e);

/// The inputs of a plan, taken run by run, newest first.
struct InputList {
  std::vector<PlanInput> inputs{};
  Reservation reserved{};

  void take(const RunShape& run, std::span<const FileShape> files);
};

/// The files of a run that overlap the range.
[[nodiscard]] std::span<const FileShape> files_in(const RunShape& run, const KeyRange& range);
/// Index of the first run from `run` on with files in the range, and of the last; shape.runs.size() if there is none.
[[nodiscard]] std::size_t next_overlapping(const TreeShape& shape, std::size_t run, const KeyRange& range);
[[nodiscard]] std::size_t oldest_overlapping(const TreeShape& shape, std::size_t run, const KeyRange& range);
/// True if no run older than `run` has files in the range.
[[nodiscard]] bool is_final_in(const TreeShape& shape, std::size_t run, const KeyRange& range);

/// Returns the file of run `below`, overlapped by the expired file, that is under the oldest obligation; the smallest of equals.
[[nodiscard]] const FileShape& most_urgent_target(const FadeQuery& query, const ExpiredFile& e, std::size_t below);

}  // namespace ebbtide
