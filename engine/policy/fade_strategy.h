// The two strategies that move a file's pending deletes into older runs: a step into the next older run, and a slice into the
// oldest run that overlaps the file. Each is a function from values to a proposal; policy/fade.cc chooses among the proposals.
// This header has the query and the lists of files that both use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "policy/fade_due.h"

namespace ebbtide {

/// A file with pending deletes whose time on its level is over.
struct ExpiredFile {
  std::size_t run = 0;  ///< index of the file's run; a smaller index is newer
  const FileShape* file = nullptr;
  bool final = false;  ///< true if no older run overlaps the file
};

/// The input of propose_step_down() and propose_slice(), apart from the expired file.
struct FadeQuery {
  const TreeShape& shape;
  const DueTimes& due;
  bool by_file = false;        ///< Policy::by_file
  bool room_is_short = false;  ///< the result of is_short() for FadeContext::room

  /// Returns true if the file's pending deletes go to the bottommost run in one slice. A file of level 0 makes a step down
  /// first, since files of level 0 span all keys.
  [[nodiscard]] bool goes_in_one(const ExpiredFile& e) const { return by_file && due.in_one_go() && shape.runs[e.run].level > 0; }
};

/// The sums of the files that a plan takes as inputs.
struct Reservation {
  std::uint64_t bytes = 0;  ///< bytes of the inputs; the plan writes at most as many bytes
  bool busy = false;        ///< true if an input is busy (a running job uses it), so that the plan must wait
};

/// The result of a strategy.
struct Proposal {
  Plan plan{};  ///< only `action` is set
  Reservation reserved{};
};

/// Returns a merge that moves the file one level down; from level 0, together with all runs there. Returns no value if a slice
/// is needed: the file's level has a further, older run, a run with files in the range lies in between, or the merge would be
/// very large (kLargestMerge).
[[nodiscard]] std::optional<Proposal> propose_step_down(const FadeQuery& query, const ExpiredFile& e);

/// Returns a merge of one key range, from the file's run or a newer run down to the oldest run that overlaps the file. `e` must
/// not be final.
[[nodiscard]] Proposal propose_slice(const FadeQuery& query, const ExpiredFile& e);

/// Adjacent files of one run. (Replaces std::ranges::subrange of libstdc++ 12, which clang 14 cannot compile.)
class FileSpan {
 public:
  FileSpan(FileShapes::const_iterator first, FileShapes::const_iterator last) : begin_(first), end_(last) {}
  [[nodiscard]] FileShapes::const_iterator begin() const { return begin_; }
  [[nodiscard]] FileShapes::const_iterator end() const { return end_; }
  [[nodiscard]] bool empty() const { return begin_ == end_; }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(end_ - begin_); }
  [[nodiscard]] const FileShape& operator[](std::size_t i) const { return begin_[static_cast<std::ptrdiff_t>(i)]; }
  /// front() and back() require that the span is not empty.
  [[nodiscard]] const FileShape& front() const { return *begin_; }
  [[nodiscard]] const FileShape& back() const { return (*this)[size() - 1]; }

 private:
  FileShapes::const_iterator begin_, end_;
};

/// The inputs of a plan, collected run by run, newest first.
struct InputList {
  std::vector<PlanInput> inputs{};
  Reservation reserved{};

  void take(const RunShape& run, FileSpan files);
};

/// Returns the files of a run that overlap the range.
[[nodiscard]] FileSpan files_in(const RunShape& run, const KeyRange& range);
/// Among the runs with index >= `run` that have files in the range, return the index of the newest or of the oldest;
/// shape.runs.size() if there is none.
[[nodiscard]] std::size_t next_overlapping(const TreeShape& shape, std::size_t run, const KeyRange& range);
[[nodiscard]] std::size_t oldest_overlapping(const TreeShape& shape, std::size_t run, const KeyRange& range);
/// Returns true if no run older than `run` has files in the range.
[[nodiscard]] bool is_final_in(const TreeShape& shape, std::size_t run, const KeyRange& range);

/// Returns the most urgent file of run `below` that overlaps `e`. A file's urgency is the earliest deadline of the expired files
/// in newer runs that overlap the file. If several files are equal, returns the file with the smallest keys.
[[nodiscard]] const FileShape& most_urgent_target(const FadeQuery& query, const ExpiredFile& e, std::size_t below);

}  // namespace ebbtide
