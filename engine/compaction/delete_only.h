// Files that may go without being read: a newer range tombstone covers all of each.
//
// File F of run r goes if newer runs' range tombstones cover its whole bounds (its own range tombstones included) with seqs above
// every seq in it, and no view is old enough to see anything of F and yet older than the covering tombstone. The covering
// tombstone lies in a newer run and goes on hiding what older runs have of those keys, so F's versions, tombstones and range
// tombstones are needed for nothing. One thing could get lost: F may owe births older than the covering tombstone's. Then it goes
// only if no older file overlaps it after the edit, that is, if there is nothing left to owe.
#pragma once

#include <functional>
#include <vector>

#include "deletes/range_tombstone.h"
#include "tree/plan.h"
#include "version/version.h"

namespace ebbtide {

struct DeleteOnlyInput {
  const Version* version = nullptr;
  std::vector<SeqNum> view_seqs{};  ///< open leased views, ascending
  SeqNum visible_seq = kMaxSeqNum;  ///< greatest seq that a reader can have
  /// The range tombstones of a file whose stats have some; never null. Asked only for files that could cover something.
  std::function<SharedTombstones(const FileMeta& file)> tombstones{};
  std::function<bool(FileNum data_file)> busy{};  ///< inputs of running jobs; may be null. Busy files are not dropped, but may
                                                  ///< cover: what a merge makes of their tombstones covers as much
};

/// A Drop of all such files, or an empty plan. Pure; without range tombstones O(files), else O(files x runs that have some).
Plan plan_delete_only(const DeleteOnlyInput& input);

}  // namespace ebbtide
