// FADE (Lethe, section 4.1) over any merge policy: chooses the work that must start now so that every delete meets its
// deadline. Pure functions.
//
// An *obligation* is the birth of a tombstone, a range tombstone or a delete debt, or an expiry that has passed. The data
// deleted at the birth must be purged by FileShape::deadline. A file is *final* (bottommost) if no older run overlaps it; the
// next rewrite of a final file ends its obligations. Once a file's time on its level is over (fade_due.h), the plan for the
// file is:
//
//   final file                    Rewrite: one file, same run.
//   trees whose files go down     Step down: a merge into the next older run (fade_step_down.cc). A step with a very large merge
//   singly (Policy::by_file)      (kLargestMerge), or from a level with several runs, is done in slices.
//   all others                    Slice: one key range of all runs, merged into the oldest (fade_slice.cc).
//
// If the disk has little space (FadeContext::room), each plan must fit in the free space, and its inputs are freed before the
// next plan begins. A slice then takes one target (a file of the oldest run); the smallest slice comes first; a step down that
// does not fit is done in slices. If even the smallest slice does not fit, a Rewrite first splits one of its files, so that the
// next slice is smaller. The Rewrite splits the target, if the files inside the target's range have more bytes than the files
// that reach beyond it. Otherwise it splits the largest file that reaches beyond the range. So merges need only the space of one
// file (engine/docs/decisions/0034-deadlines-on-a-full-disk.md).
//
// A file with a delete born by TreeShape::purge_before is expired on every level, and its plan comes first. The order of the
// other files is DD of section 4.1.4: by deadline, the earliest first. Files with equal deadlines are ordered by level (the
// smallest first), then by number of tombstones (most first), then by run (the newest first), then by smallest key.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "policy/fade_due.h"

namespace ebbtide {

struct FadeContext {
  Millis now = 0;     ///< engine time
  Millis margin = 0;  ///< ms before a deadline at which all merges for it must be done (expires_at())
  /// True: make plans only for *late* files, which have at most half of the margin left before their deadline. Running jobs may
  /// be aborted for late files.
  bool late_only = false;
  std::span<const FileNum> skip{};  ///< numbers of files for which no plan is made, ascending
  /// True while the I/O budget is used up: make plans only for late files and for PURGE.NOW.
  bool over_budget = false;
  /// Free bytes on the disk for outputs. If is_short(room, ...), it limits the size of plans and decides their order.
  std::uint64_t room = std::numeric_limits<std::uint64_t>::max();
};

/// A slice takes adjacent targets (files of the oldest run) that together have at most kSliceFiles times the target size of a
/// file. A file that lies across an end of the slice is rewritten only to be cut there; larger slices cut fewer files.
inline constexpr std::uint64_t kSliceFiles = 8;
/// Like kSliceFiles, for slices from level 1 through all levels (TtlShares::in_one_go), which may cut a large file of each level.
inline constexpr std::uint64_t kOneGoFiles = 16;
/// A step down with inputs of more than this many times the size setting of files is done in slices.
inline constexpr std::uint64_t kLargestMerge = 32;

/// Returns true if a plan of usual size may not fit in `room`, the free bytes of the disk. `file_bytes`: TreeShape::file_bytes.
[[nodiscard]] bool is_short(std::uint64_t room, std::uint64_t file_bytes);

/// Returns the most urgent plan for the deadlines, with reason kDeadline; Plan::urgent is true if its file is late. Returns an
/// empty plan if no file is expired, or if every plan needs busy files. FileShape::deadline is the time by which the file's
/// deletes must be purged (0: no promise).
Plan urgent(const TreeShape& shape, const Policy& policy, const FadeContext& context);

/// The merges that the deadlines of a tree still need.
struct FadeWork {
  std::uint64_t bytes = 0;  ///< bytes of files with pending deletes, and of final files that they overlap; each counts once
  /// The rate that meets every deadline: the maximum, over all deadlines t, of (bytes due by t) / (t - now). Overdue bytes count
  /// as due within a second.
  double bytes_per_ms = 0;
  Millis oldest_birth = 0;  ///< birth of the oldest pending delete; 0: none
  Millis deadline = 0;      ///< the earliest deadline; 0: no promise
};
FadeWork fade_work(const TreeShape& shape, Millis now);

}  // namespace ebbtide
