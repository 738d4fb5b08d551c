// Finds files that may be dropped without being read, since newer range tombstones cover all of their entries.
//
// File F of run r is dropped if range tombstones of newer runs cover the whole range of F's keys, including F's own range
// tombstones. The covering tombstones' seqs must be above every seq in F, and every future reader must see them. The covering
// tombstones are in newer runs and continue to hide versions in older runs, so F's versions, tombstones and range tombstones are
// not needed. But F may have pending deletes with births older than the covering tombstone's. Then F is dropped only if no older
// file overlaps it after the edit: only then does no file have a trace of these deletes.
#pragma once

#include <functional>
#include <vector>

#include "deletes/range_tombstone.h"
#include "tree/plan.h"
#include "version/version.h"

namespace ebbtide {

struct DeleteOnlyInput {
  const Version* version = nullptr;
  SeqNum visible_seq = kMaxSeqNum;  ///< the visible seq at the start: every later reader has this seq or a greater one
  /// Returns the range tombstones of a file; never null. Called only for files with range tombstones, by their stats, that could
  /// cover other files.
  std::function<SharedTombstones(const FileMeta& file)> tombstones{};
  /// Returns true for input files of running jobs; may be null. Such files are not dropped. But their range tombstones may cover
  /// other files, since the job's output keeps tombstones that cover the same keys.
  std::function<bool(FileNum data_file)> busy{};
};

/// Returns a Drop of all files that may be dropped without being read, or an empty plan if there are none. Pure. Takes O(files)
/// if there are no range tombstones, otherwise O(files x runs with range tombstones).
Plan plan_delete_only(const DeleteOnlyInput& input);

}  // namespace ebbtide
