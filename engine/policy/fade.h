// FADE (Lethe, section 4.1) over any merge policy: chooses the work that must start now so that every delete meets its deadline.
// Pure.
//
// An *obligation* is the birth of a tombstone, a range tombstone or a delete debt, or an expiry that has passed. Data deleted
// then must be purged by FileShape::deadline. A file is *final* (bottommost) if no older run overlaps it; there an obligation
// ends with the next rewrite. Once a file's time on its level is over (fade_due.h), the plan for it is:
//
//   final file                    Rewrite: one file, same run.
//   trees that go file by file    Step down: a merge into the next older run (fade_step_down.cc). A step with a very large merge
//   (Policy::by_file)             (kLargestMerge), or over a level with several runs, is done in slices.
//   all others                    Slice: one key range of all runs, merged into the oldest (fade_slice.cc).
//
// If the disk has little space (FadeContext::room), each plan must fit in it, and frees its inputs before the next begins. A
// slice takes one target; the smallest comes first; a step down that does not fit is done in slices. If even the smallest slice
// does not fit, its largest file is first split by a Rewrite, into files of part_bytes(). So the space needed is that of one file
// (engine/docs/decisions/0034-deadlines-on-a-full-disk.md).
//
// Deletes born by TreeShape::purge_before are expired in every place, and come first. Order (DD of section 4.1.4): the oldest
// obligation first, that is, the earliest deadline. Ties: the smallest level, then the file with the most tombstones, then the
// newest run and the smallest key.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "policy/fade_due.h"

namespace ebbtide {

struct FadeContext {
  Millis now = 0;     ///< engine time
  Millis margin = 0;  ///< how long before a deadline all work for it is to be done; as expires_at()
  /// Only files so close to their deadline that running jobs may be aborted for them: half of the margin is left.
  bool late_only = false;
  std::span<const FileNum> skip{};  ///< ascending: files for which no plan is made
  /// The I/O budget is used up for now: only late work, or PURGE.NOW.
  bool over_budget = false;
  /// Free bytes on the disk for outputs. If is_short(), it limits the size of plans and decides their order.
  std::uint64_t room = std::numeric_limits<std::uint64_t>::max();
};

/// A slice takes adjacent targets, up to this many files' sizes. The larger its part of a straddling file, the less of that file
/// is rewritten only to be cut.
inline constexpr std::uint64_t kSliceFiles = 8;
/// The same for slices through all levels, which may cut a large file of each level.
inline constexpr std::uint64_t kOneGoFiles = 16;
/// A step down of more than this many files' sizes is done in slices.
inline constexpr std::uint64_t kLargestMerge = 32;

/// True if a plan of usual size may not fit in the free space; `file_bytes` is the target size of files.
[[nodiscard]] bool is_short(std::uint64_t room, std::uint64_t file_bytes);
/// File size while space is_short(): with files of this size in all of the `runs` runs, a slice takes less than the free space.
/// From a 64th of `file_bytes` to `file_bytes`.
[[nodiscard]] std::uint64_t part_bytes(std::uint64_t room, std::size_t runs, std::uint64_t file_bytes);

/// Returns the most urgent plan for the deadlines. Empty if no file is expired, or every plan needs busy files.
/// FileShape::deadline is the promise (0: none); reason kDeadline; Plan::urgent if it is late.
Plan urgent(const TreeShape& shape, const Policy& policy, const FadeContext& context);

/// The work still to be done for the deadlines of a tree.
struct FadeWork {
  std::uint64_t bytes = 0;  ///< of all files with pending deletes and all final files below them: each is written once
  /// The rate that meets every deadline: the maximum, over the deadlines t, of (bytes due by t) / (t - now). Overdue bytes count
  /// as due within a second.
  double bytes_per_ms = 0;
  Millis oldest_birth = 0;  ///< 0: no pending delete
  Millis deadline = 0;      ///< the earliest; 0: no promise
};
FadeWork fade_work(const TreeShape& shape, Millis now);

}  // namespace ebbtide
