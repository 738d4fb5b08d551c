// Flushes memtables and ends log segments whose deletes are due (retention.h decides which).
//
// A log segment can be removed once it takes no more batches and no memtable needs it. The memtables that do are flushed, however small
// they are.
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

/// Revokes the leases that alone keep files whose deletes are due. A lease that only reads tables of its tree stays.
void revoke_hindering_leases(LeaseRegistry* leases, const PurgeSurvey& survey);

/// Thread-safe.
class LogRetirer {
 public:
  struct Env {
    TreeRegistry* trees = nullptr;
    std::function<void(FileNum)> end_segment;  ///< the segment takes no more batches; pieces in it and in older ones are given up
    std::function<std::vector<LogSegment>()> segments;
    std::function<void(const TreePtr&)> hurry;  ///< flushes all frozen memtables of the tree; the commit mutex is held
  };

  explicit LogRetirer(Env env) : env_(std::move(env)) {}

  /// Flushes the frozen memtables of a live tree, and the active one if `freeze_active`.
  void flush(TreeId id, bool freeze_active) EXCLUDES(env_.trees->commit_mutex);
  /// Ends the segment, and flushes every memtable that needs it or an older one.
  void retire_until(FileNum last) EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);

 private:
  const Env env_;
};

}  // namespace ebbtide
