// Keeps the delete deadlines of tables: passes the state of each tree to the tracker (db/purge/deadline_tracker.h), and flushes
// the memtables that the tracker finds due.
//
// Planners make plans for deadlines (planners.h). db/purge/missed_deadlines.h counts deletes that missed their deadline;
// db/purge/retention.h keeps the deadlines of log and manifest.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <engine/types.h>
#include "db/purge/deadline_tracker.h"
#include "db/trees/tree_registry.h"

namespace ebbtide {

/// Watches the deadlines of all trees. Thread-safe.
class DeadlineKeeper {
 public:
  struct Env {
    TreeRegistry* trees = nullptr;
    DeadlineTracker* tracker = nullptr;
    std::function<Millis()> now;                ///< engine time
    std::function<std::uint64_t()> room;        ///< returns the bytes on the disk that merges for deadlines may take
    std::function<void(const TreePtr&)> hurry;  ///< flushes all frozen memtables of the tree; called with the commit mutex held
  };

  explicit DeadlineKeeper(Env env) : env_(std::move(env)) {}

  /// Called on each tick of the database. `loads`: all live trees.
  void tick(const std::vector<TreeLoad>& loads) EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);

 private:
  [[nodiscard]] DeadlineTracker::TreeNow deadlines_now(const TreeLoad& load, Millis now) const EXCLUDES(env_.trees->state_mutex);
  void flush_due(const TreeLoad& load) EXCLUDES(env_.trees->commit_mutex);

  const Env env_;
};

}  // namespace ebbtide
