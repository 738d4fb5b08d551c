// Decides when frozen memtables are flushed, and which trees are flushed together.
//
// Flushes of different trees run side by side: the urgent flush of a small database does not wait for the long flush of another.
// An urgent flush (for a deadline, the log or memory) includes small memtables of other trees whose flush is urgent. So one sync
// of the log and one edit serve all of them. With a static schedule, a flush waits for the merge that belongs to the previous
// flush.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <engine/status.h>
#include "base/mutex.h"
#include "db/background/compaction_scheduler.h"
#include "db/background/flush_gate.h"
#include "db/trees/tree.h"

namespace ebbtide {

/// Schedules the flushes of all trees. Thread-safe.
class FlushScheduler {
 public:
  struct Env {
    Mutex* state_mutex = nullptr;  ///< guards trees (db/trees/tree.h)
    FlushGate* gate = nullptr;     ///< running flushes share it; taken before state_mutex
    CompactionScheduler* compactions = nullptr;
    std::function<std::vector<TreePtr>()> trees;               ///< returns all trees that are not dropped
    std::function<Status(const std::vector<TreePtr>&)> flush;  ///< flushes the trees; called while the gate is shared
    std::function<void(std::function<void()>)> submit;         ///< runs a function on a thread that may wait for the device
    std::function<bool()> may_flush;  ///< false after an error and while closing; called with the state mutex held
    std::function<bool()> closing;
    std::function<void()> progressed;  ///< wakes waiting threads; removes files
    std::function<void(const Status&)> failed;
  };

  explicit FlushScheduler(Env env) : env_(std::move(env)) {}

  /// Submits a flush of the tree's frozen memtables. No effect if a flush is queued, or if the memtables are small and wait until
  /// the next memtable is full.
  void schedule(const TreePtr& tree) EXCLUDES(*env_.state_mutex);
  /// For deadlines, the log or memory: flushes all frozen memtables of the tree now, without waiting for a merge.
  void hurry(const TreePtr& tree) EXCLUDES(*env_.state_mutex);

 private:
  void run(const TreePtr& tree) EXCLUDES(*env_.gate, *env_.state_mutex);
  [[nodiscard]] bool awaits_merge(const TreePtr& tree) EXCLUDES(*env_.state_mutex);
  [[nodiscard]] bool has_pending_merge(const Tree& tree) const;
  [[nodiscard]] std::vector<TreePtr> begin_group(const TreePtr& tree) EXCLUDES(*env_.state_mutex);

  const Env env_;
};

}  // namespace ebbtide
