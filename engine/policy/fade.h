// FADE (Lethe, section 4.1) over any merge policy: what must be done now so that every delete meets its deadline. Pure.
//
// An *obligation* is the birth of a tombstone, of a range tombstone or of a debt, or an expiry that has passed: whatever was
// deleted then has to be out of all files by FileShape::deadline. A file is *final* if no older run overlaps it; there an
// obligation ends with the next rewrite. What is asked for:
//
//   final file                  Rewrite: one file, same run
//   trees that go file by file  the file steps down (a merge with what it overlaps in the next older run that it meets). Out of
//   (Policy::by_file)           level 0 go all its runs: those that are not expired yet will be, and would have the next run
//                               written again. Where that next run is final the step is aimed at a target: the final file under
//                               the oldest obligation absorbs all that lies over it in the run above, so that one target is
//                               written once. A level between, of which the file meets nothing, is where it rests as long as
//                               that level's time lasts.
//   all others                  Slice: the key range of files of the oldest overlapping run, out of all younger runs from the
//                               tombstone's down, into them. No run comes, goes or changes place.
//
// A step down whose merge would be out of all proportion (kLargestMerge) is done in slices too.
//
// When. TTLs d_0 .. d_{n-1} of the levels above the final run (the memtable is the first of them) share the time from birth to
// deadline, less a margin for the work itself, in the ratio of the levels' capacities: the paper's geometric rule for any
// capacities. A file of the i-th is expired once its age exceeds d_0 + ... + d_i. A slice goes down to the final run in one go, so
// in trees of slices a file has the whole time: to slice earlier would write each target more often and no tombstone less. The
// same holds for what final files owe (engine/docs/decisions/0007-one-ttl-for-slices.md).
//
// Where less arrives within a deadline than the levels above the last hold, it is the deadline that moves data down, not growth,
// and each step would write the next level as a whole once in its TTL. Then trees that go file by file do with what is below
// level 0 as the others: it has the whole time, and goes down in one slice out of all levels from 1 on, so that the tree is
// written once in a deadline (engine/docs/decisions/0024-down-in-one-go.md). Memtable and level 0 keep shares, by capacities
// that count up to what arrives; level 0 has until half of the time at least.
//
// Where the disk has little room (FadeContext::room), what is asked for must fit in it, and frees what its inputs have before the
// next begins: a slice takes one target, the smallest comes first, a step down that does not fit is done in slices, and if even
// the smallest slice does not fit, the largest file that it takes is first split by a Rewrite, into files of part_bytes(). So the
// room that is needed is that of one file (engine/docs/decisions/0034-deadlines-on-a-full-disk.md).
//
// What was born by TreeShape::purge_before is expired wherever it is, and comes first. Order (DD of section 4.1.4): the oldest
// obligation first, that is, the earliest deadline; of equals the smallest level, then the file with the most tombstones, then
// the newest run and the smallest key.
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
  /// Only what is so close to its deadline that running jobs may be aborted for it: half of the margin is left.
  bool late_only = false;
  std::span<const FileNum> skip{};  ///< ascending: files that are not tried on their own account
  /// What this may cost is spent for now: only what is late, or somebody asked for.
  bool over_budget = false;
  /// Bytes that the disk has for what is written. If is_short(), plans are cut and ordered by it.
  std::uint64_t room = std::numeric_limits<std::uint64_t>::max();
};

/// A slice grows over neighbouring targets up to so many files' sizes: the more of a straddling file it takes along, the less of
/// it is written only to be clipped.
inline constexpr std::uint64_t kSliceFiles = 8;
/// The same for slices that go down in one go: a large file of each level may be clipped.
inline constexpr std::uint64_t kOneGoFiles = 16;
/// A step down of more than so many files' sizes is done in slices.
inline constexpr std::uint64_t kLargestMerge = 32;

/// Whether a plan of usual size may not fit in the room; `file_bytes` is the target size of files.
[[nodiscard]] bool is_short(std::uint64_t room, std::uint64_t file_bytes);
/// How large files are made while room is_short(): with files of this size in all of the `runs` runs, a slice takes less than the
/// room. At least a 64th of `file_bytes`, at most `file_bytes`.
[[nodiscard]] std::uint64_t part_bytes(std::uint64_t room, std::size_t runs, std::uint64_t file_bytes);

/// d_0 .. d_{n-1} for the capacities c_0 .. c_{n-1} of the levels above the final run, memtable first: ms, as fractions.
/// d_i = (deadline - margin) c_i / sum(c). `margin` is at most `deadline`.
std::vector<double> level_ttls(double deadline, double margin, std::span<const double> capacities);

/// Which part of its time a delete may spend down to and including each level: [0] in the memtable, [i + 1] down to level i; what
/// lies deeper has all of it (1).
class TtlShares {
 public:
  TtlShares(const TreeShape& shape, const Policy& policy);
  [[nodiscard]] double memtable() const { return shares_.front(); }
  [[nodiscard]] double level(int level) const;
  /// Less arrives within a deadline than the levels above the last can hold: what expires below level 0 goes down in one go.
  [[nodiscard]] bool in_one_go() const { return in_one_go_; }

 private:
  std::vector<double> shares_;
  bool in_one_go_ = false;
};

/// When something born at `birth` and due at `deadline` has to leave a place that ends `share` of its way.
Millis expires_at(Millis birth, Millis deadline, Millis margin, double share);

/// The most urgent thing to do for the deadlines, or an empty plan if no file is expired, or none whose plan does without busy
/// files. FileShape::deadline says what is promised (0: nothing); reason kDeadline; Plan::urgent if it is late.
Plan urgent(const TreeShape& shape, const Policy& policy, const FadeContext& context);

/// What is still to be done for the deadlines of a tree.
struct FadeWork {
  std::uint64_t bytes = 0;  ///< of all files that owe something and all final files below them: each is to be written once
  /// The rate that meets every deadline: the most, over the deadlines t, of (bytes due by t) / (t - now). What is overdue counts
  /// as due within a second.
  double bytes_per_ms = 0;
  Millis oldest_birth = 0;  ///< 0: nothing is owed
  Millis deadline = 0;      ///< the earliest; 0: nothing is promised
};
FadeWork fade_work(const TreeShape& shape, Millis now);

}  // namespace ebbtide
