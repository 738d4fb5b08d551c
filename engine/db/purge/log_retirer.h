// Flushes memtables, and ends log segments, so that segments with due deletes can be removed. retention.h decides which segments.
//
// A log segment can be removed once it takes no more batches and no memtable needs it. Memtables that need the segment are
// flushed, even if they are small.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include <engine/types.h>
#include "base/mutex.h"
#include "db/trees/lease_registry.h"
#include "db/trees/tree_registry.h"
#include "wal/log_segment.h"

namespace ebbtide {

struct PurgeSurvey;

/// Revokes the leases that keep replaced files whose deletes are due. A lease is not revoked if all its tables are still in its
/// tree.
void revoke_hindering_leases(LeaseRegistry* leases, const PurgeSurvey& survey);

/// Carries out flushes for the log's deadlines. Thread-safe.
class LogRetirer {
 public:
  struct Env {
    TreeRegistry* trees = nullptr;
    /// Ends a segment: the log writes no more batches to the segment. Pieces of staged batches in this and in older segments are
    /// abandoned.
    std::function<void(FileNum)> end_segment;
    std::function<std::vector<LogSegment>()> segments;
    std::function<void(const TreePtr&)> hurry;  ///< flushes all frozen memtables of the tree; called with the commit mutex held
  };

  explicit LogRetirer(Env env) : env_(std::move(env)) {}

  /// Flushes the frozen memtables of a live tree, and also the active memtable if `freeze_active` is true.
  void flush(TreeId id, bool freeze_active) EXCLUDES(env_.trees->commit_mutex);
  /// Ends the segment `last`, and flushes every memtable that needs it or an older segment.
  void retire_until(FileNum last) EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);

 private:
  const Env env_;
};

}  // namespace ebbtide
