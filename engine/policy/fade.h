// FADE (Lethe, section 4.1) over any merge policy: chooses the work that must start now so that every delete meets its
// deadline. Pure functions.
//
// An *obligation* is the birth of a tombstone, a range tombstone or a delete debt, or an expiry that has passed. The data
// deleted at the birth must be purged by FileShape::deadline. A file is *final* (bottommost) if no older run overlaps it; the
// next rewrite of a final file ends its obligations. Once a file's time on its level is over (fade_due.h), the plan for the
// file is:
//
//   final file                    Rewrite: one file, same run.
//   trees that go file by file    Step down: a merge into the next older run (fade_step_down.cc). A step with a very large merge
//   (Policy::by_file)             (kLargestMerge), or over a level with several runs, is done in slices.
//   all others                    Slice: one key range of all runs, merged into the oldest (fade_slice.cc).
//
// If the disk has little space (FadeContext::room), each plan must fit in the free space, and its inputs are freed before the
// next plan begins. A slice then takes one target; the smallest slice comes first; a step down that does not fit is done in
// slices. If even the smallest slice does not fit, a Rewrite first splits one of its files, so that the next slice is smaller:
// the target, which spans the files inside the slice, or the largest file that reaches beyond it, whichever group has more
// bytes. So the space needed is that of one file (engine/docs/decisions/0034-deadlines-on-a-full-disk.md).
//
// A file with a delete born by TreeShape::purge_before is expired on every level, and comes first. The order is DD of section
// 4.1.4: the oldest obligation, that is, the earliest deadline, comes first. Ties: the smallest level, then the file with the
// most tombstones, then the newest run and the smallest key.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "policy/fade_due.h"

namespace ebbtide {

struct FadeContext {
  Millis now = 0;     ///< engine time
  Millis margin = 0;  ///< ms before a deadline at which all work for it is to be done; see expires_at()
  /// True: plan only for files that have at most half of the margin left before their deadline. Running jobs may be aborted for
  /// these files.
  bool late_only = false;
  std::span<const FileNum> skip{};  ///< files for which no plan is made, ascending
  /// True while the I/O budget is used up: plan only late work and PURGE.NOW.
  bool over_budget = false;
  /// Free bytes on the disk for outputs. If is_short(), `room` limits the size of plans and decides their order.
  std::uint64_t room = std::numeric_limits<std::uint64_t>::max();
};

/// A slice takes adjacent targets with together at most this many times the target file size. A file that straddles an end of the
/// slice is rewritten only to be cut; the larger the slice, the less such work there is.
inline constexpr std::uint64_t kSliceFiles = 8;
/// Like kSliceFiles, for slices through all levels, which may cut a large file of each level.
inline constexpr std::uint64_t kOneGoFiles = 16;
/// A step down with inputs of more than this many times the target file size is done in slices.
inline constexpr std::uint64_t kLargestMerge = 32;

/// True if a plan of usual size may not fit in `room`, the free bytes of the disk. `file_bytes`: target size of files.
[[nodiscard]] bool is_short(std::uint64_t room, std::uint64_t file_bytes);

/// Returns the most urgent plan for the deadlines, with reason kDeadline; Plan::urgent is set if the plan is late. Returns an
/// empty plan if no file is expired, or if every plan needs busy files. FileShape::deadline is the time by which the file's
/// deletes must be purged (0: no promise).
Plan urgent(const TreeShape& shape, const Policy& policy, const FadeContext& context);

/// The work that the deadlines of a tree still need.
struct FadeWork {
  std::uint64_t bytes = 0;  ///< bytes of all files with pending deletes and of all final files below them; each file counts once
  /// The rate that meets every deadline: the maximum, over all deadlines t, of (bytes due by t) / (t - now). Overdue bytes count
  /// as due within a second.
  double bytes_per_ms = 0;
  Millis oldest_birth = 0;  ///< birth of the oldest pending delete; 0: none
  Millis deadline = 0;      ///< the earliest deadline; 0: no promise
};
FadeWork fade_work(const TreeShape& shape, Millis now);

}  // namespace ebbtide
