// Finds files that may be dropped without being read: newer range tombstones cover all of each.
//
// File F of run r is dropped if range tombstones of newer runs cover its whole bounds, its own range tombstones included. Their
// seqs must be above every seq in F, and every reader to come must see the covering tombstone. The covering tombstone is in a newer
// run and continues to hide versions in older runs, so F's versions, tombstones and range tombstones are not needed. But F may
// have pending deletes with births older than the covering tombstone's. Then it is dropped only if no older file overlaps it
// after the edit, that is, if these deletes have no traces left.
#pragma once

#include <functional>
#include <vector>

#include "deletes/range_tombstone.h"
#include "tree/plan.h"
#include "version/version.h"

namespace ebbtide {

struct DeleteOnlyInput {
  const Version* version = nullptr;
  SeqNum visible_seq = kMaxSeqNum;  ///< greatest seq that a reader can have
  /// Returns the range tombstones of a file whose stats have some; never null. Called only for files that could cover others.
  std::function<SharedTombstones(const FileMeta& file)> tombstones{};
  /// Inputs of running jobs; may be null. Busy files are not dropped. But their tombstones may cover other files, since the job's
  /// output keeps tombstones that cover as much.
  std::function<bool(FileNum data_file)> busy{};
};

/// Returns a Drop of all such files, or an empty plan. Pure. O(files) without range tombstones, otherwise O(files x runs with
/// range tombstones).
Plan plan_delete_only(const DeleteOnlyInput& input);

}  // namespace ebbtide
