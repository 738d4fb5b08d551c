// When frozen memtables are flushed, and those of which trees together.
//
// A flush that hurries (for a deadline, the log or memory) takes along small memtables of other trees that hurry, too: one sync of
// the log and one edit serve all of them. A flush of a static schedule waits for the merge that the schedule has for the flush
// before.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <engine/status.h>
#include "base/mutex.h"
#include "db/background/compaction_scheduler.h"
#include "db/trees/tree.h"

namespace ebbtide {

/// Thread-safe.
class FlushScheduler {
 public:
  struct Env {
    Mutex* state_mutex = nullptr;  ///< guards trees, as db/trees/tree.h has it
    Mutex* flush_mutex = nullptr;  ///< one flush at a time; before the others
    CompactionScheduler* compactions = nullptr;
    std::uint64_t memtable_size = 0;
    std::function<std::vector<TreePtr>()> trees;               ///< all that are not dropped
    std::function<Status(const std::vector<TreePtr>&)> flush;  ///< the flush mutex is held
    std::function<void(std::function<void()>)> submit;         ///< for work that waits for the device
    std::function<bool()> may_flush;                           ///< no error, not closing; the state mutex is held
    std::function<bool()> closing;
    std::function<void()> progressed;  ///< threads that wait look again; files are removed
    std::function<void(const Status&)> failed;
  };

  explicit FlushScheduler(Env env) : env_(std::move(env)) {}

  /// Submits a flush of the tree's frozen memtables, unless one is queued, or they wait for the next memtable to be full.
  void schedule(const TreePtr& tree) EXCLUDES(*env_.state_mutex);
  /// For deadlines, the log or memory: all frozen memtables of the tree are flushed now, and wait for no merge.
  void hurry(const TreePtr& tree) EXCLUDES(*env_.state_mutex);

 private:
  void run(const TreePtr& tree) EXCLUDES(*env_.flush_mutex, *env_.state_mutex);
  [[nodiscard]] bool awaits_merge(const TreePtr& tree) EXCLUDES(*env_.state_mutex);
  [[nodiscard]] bool has_pending_merge(const Tree& tree) const;
  [[nodiscard]] std::vector<TreePtr> group_of(const TreePtr& tree) EXCLUDES(*env_.state_mutex);

  const Env env_;
};

}  // namespace ebbtide
