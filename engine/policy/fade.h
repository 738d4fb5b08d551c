// FADE (Lethe, section 4.1) over any merge policy: chooses the work that must start now so that every delete meets its deadline.
// Pure.
//
// An *obligation* is the birth of a tombstone, a range tombstone or a delete debt, or an expiry that has passed. Data deleted
// then must be purged by FileShape::deadline. A file is *final* (bottommost) if no older run overlaps it; there an obligation
// ends with the next rewrite. The plans are:
//
//   final file                  Rewrite: one file, same run
//   trees that go file by file  the file steps down: a merge with the files that it overlaps in the next older run that has any.
//   From (Policy::by_file)           level 0 all runs go: the others will expire soon and would cause another rewrite of the next
//   run. If
//                               that next run is final, the step has a target: the final file under the oldest obligation absorbs
//                               everything above it in the run above, so that it is written once. On a level in between without
//                               overlapping files the file waits for as long as that level's time lasts.
//   all others                  Slice: the key range of files of the oldest overlapping run, merged from all younger runs from
//   the
//                               tombstone's down into these files. No run is added, removed or moved.
//
// A step down with a very large merge (kLargestMerge) is done in slices too.
//
// When: each level above the final run has a TTL, d_0 (the memtable) to d_{n-1}. The TTLs divide the time from birth to deadline,
// less a margin for the work itself, in the ratio of the levels' capacities: the paper's geometric rule for any capacities. A
// file of the i-th level is expired once its age exceeds d_0 + ... + d_i. A slice goes directly to the final run. So in trees of
// slices a file has the whole time: earlier slices would write each target more often and no tombstone less. The same is true for
// obligations of final files (engine/docs/decisions/0007-one-ttl-for-slices.md).
//
// If less data arrives within a deadline than the levels above the last hold, deadlines move data down, not growth. Each step
// would then rewrite the whole next level once per TTL. So trees that go file by file treat data below level 0 as the others do:
// it has the whole time, and goes down in one slice from all levels from 1 on. So the tree is written once per deadline
// (engine/docs/decisions/0024-down-in-one-go.md). Memtable and level 0 keep shares, by capacities of at most the arriving data;
// level 0 has at least half of the time.
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
#include <vector>

#include "policy/policy.h"

namespace ebbtide {

struct FadeContext {
  Millis now = 0;  ///< engine time
  Millis margin =
      0;  ///< how long before a deadline all work for it is to be done; expires_at() takes no more than half of the time
  /// Only files so close to their deadline that running jobs may be aborted for them: half of the margin is left.
  bool late_only = false;
  std::span<const FileNum> skip{};  ///< ascending: files for which no plan is made
  /// The I/O budget is used up for now: only late work, or PURGE.NOW.
  bool over_budget = false;
  /// Free bytes on the disk for outputs. If is_short(), plans are cut and ordered by it.
  std::uint64_t room = std::numeric_limits<std::uint64_t>::max();
};

/// A slice grows over neighbouring targets up to this many files' sizes: the more of a straddling file it takes, the less of it
/// is written only to be clipped.
inline constexpr std::uint64_t kSliceFiles = 8;
/// The same for slices through all levels: a large file of each level may be clipped.
inline constexpr std::uint64_t kOneGoFiles = 16;
/// A step down of more than this many files' sizes is done in slices.
inline constexpr std::uint64_t kLargestMerge = 32;

/// True if a plan of usual size may not fit in the free space; `file_bytes` is the target size of files.
[[nodiscard]] bool is_short(std::uint64_t room, std::uint64_t file_bytes);
/// File size while space is_short(): with files of this size in all of the `runs` runs, a slice takes less than the free space.
/// From a 64th of `file_bytes` to `file_bytes`.
[[nodiscard]] std::uint64_t part_bytes(std::uint64_t room, std::size_t runs, std::uint64_t file_bytes);

/// d_0 .. d_{n-1} for the capacities c_0 .. c_{n-1} of the levels above the final run, memtable first: ms, as fractions.
/// d_i = (deadline - margin) c_i / sum(c). `margin` is at most `deadline`.
std::vector<double> level_ttls(double deadline, double margin, std::span<const double> capacities);

/// The part of its time that a delete may spend down to and including each level: [0] in the memtable, [i + 1] down to level i; 1
/// for deeper levels.
class TtlShares {
 public:
  TtlShares(const TreeShape& shape, const Policy& policy);
  [[nodiscard]] double memtable() const { return shares_.front(); }
  [[nodiscard]] double level(int level) const;
  /// Less data arrives within a deadline than the levels above the last can hold: files that expire below level 0 go down in one
  /// slice.
  [[nodiscard]] bool in_one_go() const { return in_one_go_; }

 private:
  std::vector<double> shares_;
  bool in_one_go_ = false;
};

/// The time by which a delete born at `birth` and due at `deadline` must leave a level that ends at `share` of its time.
Millis expires_at(Millis birth, Millis deadline, Millis margin, double share);

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
