// Computes when pending deletes are due: the times by which each must leave the memtable, each level, and the files. Pure.
//
// Each level above the final run has a TTL: d_0 (the memtable) to d_{n-1}. The TTLs divide the time from birth to deadline,
// less a margin for the work itself, in the ratio of the levels' capacities. This is the paper's geometric rule, for any
// capacities. A file of the i-th level is expired once its age exceeds d_0 + ... + d_i. In trees that use slices (those without
// Policy::by_file), a slice goes directly to the final run. So each file of such a tree has the whole time: earlier slices would
// write each target more often and drop no more tombstones. Final files of all trees have the whole time for the same reason
// (engine/docs/decisions/0007-one-ttl-for-slices.md).
//
// If less data arrives within a deadline than the levels above the last can hold, data goes down because of deadlines, not
// because levels are full. With a TTL per level, each step would then rewrite the whole next level once per TTL. So in this
// case trees with Policy::by_file give data below level 0 the whole time, too. They move it down in one slice through all
// levels from level 1 on, and the tree is written once per deadline (engine/docs/decisions/0024-down-in-one-go.md). Memtable
// and level 0 keep TTLs. To compute these, each capacity is limited to the data that arrives within a deadline, and the two TTLs
// together are at least half of a delete's time.
#pragma once

#include <span>
#include <vector>

#include "policy/policy.h"

namespace ebbtide {

/// Returns d_i = (deadline - margin) c_i / sum(c), in ms with fractions, for the capacities c_0 .. c_{n-1} of the levels above
/// the final run, memtable first. `margin` is at most `deadline`.
std::vector<double> level_ttls(double deadline, double margin, std::span<const double> capacities);

/// For the memtable and each level: the fraction of the time from birth to deadline, less the margin, after which a delete must
/// have left the memtable or level. The fraction is 1 for the last level and deeper levels.
class TtlShares {
 public:
  TtlShares(const TreeShape& shape, const Policy& policy);
  [[nodiscard]] double memtable() const { return shares_.front(); }
  [[nodiscard]] double level(int level) const;
  /// Returns true if less data arrives within a deadline than the levels above the last can hold. Files that expire below level 0
  /// then go down in one slice.
  [[nodiscard]] bool in_one_go() const { return in_one_go_; }

 private:
  std::vector<double> shares_;
  bool in_one_go_ = false;
};

/// Returns the engine time by which a delete, born at `birth` and due at `deadline`, must leave a level whose TtlShares value
/// is `share`. `margin`: all work for the delete is to be done this many ms before the deadline. A margin is limited to half of
/// the time from birth to deadline.
Millis expires_at(Millis birth, Millis deadline, Millis margin, double share);

/// The due times of the files of one tree at one moment. Holds no reference to the shape.
class DueTimes {
 public:
  DueTimes(const TreeShape& shape, const Policy& policy, Millis now, Millis margin)
      : purge_before_(shape.purge_before), now_(now), margin_(margin), by_file_(policy.by_file()), shares_(shape, policy) {}

  /// Returns true if a PURGE.NOW (TreeShape::purge_before) applies to the file's oldest pending delete.
  [[nodiscard]] bool is_purged_now(const FileShape& file) const {
    return file.oldest_birth != 0 && file.oldest_birth <= purge_before_;
  }
  /// Returns the deadline of an expired file for the order of work; 0 for PURGE.NOW, which comes before all deadlines.
  [[nodiscard]] Millis deadline_of(const FileShape& file) const { return is_purged_now(file) ? 0 : file.deadline; }
  /// True if at most half of the margin is left before the file's deadline. Then running jobs may be aborted for the file.
  [[nodiscard]] bool is_late(const FileShape& file) const;
  /// Returns true if the file's time on this level is over. `final`: true if the file is bottommost, so that it has the whole
  /// time. If this is unknown, pass false: the result may then be true too early, but never false too late.
  [[nodiscard]] bool is_expired(const FileShape& file, int level, bool final = false) const;
  /// A quick test for all files of a chunk: returns false only if is_expired() is false for each file.
  [[nodiscard]] bool any_may_be_expired(const ShapeSums& sums, int level) const;
  /// True if files that expire below level 0 go down in one slice (TtlShares::in_one_go).
  [[nodiscard]] bool in_one_go() const { return shares_.in_one_go(); }

 private:
  const Millis purge_before_, now_, margin_;
  const bool by_file_;
  const TtlShares shares_;
};

}  // namespace ebbtide
