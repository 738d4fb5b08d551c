// Chooses and starts the next job of a tree, and reacts to its end.
//
// schedule() is called on each change of a tree (a flush, the end of a job, new settings) and on each tick. It calls the planners
// in order (db/background/planners.h) until no planner has a plan that can start, or every thread of the pool has a job.
//
// A failed compaction loses no data. It is retried after waits that grow each time (db/background/planner_memory.h), so that a
// full disk or a bad sector does not cause a loop of useless reads and writes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include <engine/events.h>
#include <engine/status.h>
#include "base/background_pool.h"
#include "base/mutex.h"
#include "compaction/job_registry.h"
#include "db/background/hole_puncher.h"
#include "db/background/planner_memory.h"
#include "db/background/planners.h"
#include "db/trees/tree.h"

namespace ebbtide {

/// Returns a tree's shape with the deadlines of its files' pending deletes. `memtable_size` and `file_size`: bytes, as
/// configured.
[[nodiscard]] TreeShape shape_with_deadlines(const Tree& tree, const Version& version, std::uint64_t memtable_size,
                                             std::uint64_t file_size, const DeadlineRule& rule, Millis now);

/// Starts the jobs of all trees. Thread-safe.
class CompactionScheduler {
 public:
  struct Env {
    Mutex* state_mutex = nullptr;  ///< guards trees (db/trees/tree.h)
    PlannerMemory* memory = nullptr;
    HolePuncher* puncher = nullptr;
    std::function<Status(const TreePtr&, const RunningJob&)> run{};  ///< carries the job out on the calling thread
    std::function<void(std::function<void()>)> submit{};             ///< runs a function in the background
    std::function<unsigned()> threads{};  ///< returns the largest number of jobs that one tree may have at a time
    std::function<bool()> may_start{};    ///< false after an error and while closing; called with the state mutex held
    std::function<bool()> closing{};
    std::function<Millis()> now{};  ///< engine time
    std::function<SeqNum()> visible_seq{};
    std::function<void(const TablesView&, TreeShape*)> estimate_invalidated{};  ///< sets FileShape::invalidated
    std::function<bool(const Tree&)> is_late{};  ///< true if merges for a deadline of the tree are behind schedule

    // Disk space for merges for deadlines. `room`: the bytes that these merges may take. `claimed`: the bytes that running merges
    // may write. claim() is called before such a merge and release() after it, with the bytes that it may write.
    std::function<std::uint64_t()> room{}, claimed{};
    std::function<void(std::uint64_t)> claim{}, release{};

    // The following functions are called after the end of a job.
    std::function<void(const TreePtr&)> flush_waits{};        ///< called if a flush waited for the job
    std::function<void(const Status&)> deadline_job_ended{};  ///< called with the result of a job for a deadline
    std::function<void()> progressed{};                       ///< wakes waiting threads; removes files
    std::function<Status()> take_damage{};        ///< quarantines files that were found damaged; returns the error if that fails
    std::function<void(const Status&)> failed{};  ///< called if the job failed for a reason that stops all writes
    std::function<void(const std::string&)> report_error{};  ///< writes an error to the text log
  };

  explicit CompactionScheduler(Env env) : env_(std::move(env)) {}

  /// Starts all jobs of the tree that can start now.
  void schedule(const TreePtr& tree) EXCLUDES(reading_mutex_);
  /// Ends a job. The caller then calls schedule().
  void finish(const TreePtr& tree, const RunningJob& job);
  /// If every thread has a job while a late plan for a deadline waits, asks jobs that are not for deadlines to stop.
  void make_way(const TreePtr& tree);

  /// Until resume() was called as often as pause(), only jobs for deadlines start. After resume(), the caller must call
  /// schedule() for each tree.
  void pause() { paused_ += 1; }
  void resume() { paused_ -= 1; }
  [[nodiscard]] bool paused() const { return paused_ > 0; }

  [[nodiscard]] std::uint64_t running() const { return running_; }  ///< number of running jobs
  /// How often a tree exceeded a bound of its policy although no merge was due.
  [[nodiscard]] std::uint64_t bounds_broken() const { return bounds_broken_; }

 private:
  [[nodiscard]] bool may_start(const Tree& tree) const;
  /// State of the background planning of one tree. Each planning may read the indexes of one part of the tables.
  struct Reading {
    bool queued = false;
    std::uint64_t part = 0;  ///< PlannerReads::part of the next planning
    Millis next = 0;         ///< engine time before which no planning is submitted
  };

  void schedule(const TreePtr& tree, const PlannerReads& reads);
  /// Plans again in the background, where planners may read.
  void schedule_reading(const TreePtr& tree, VersionPtr version) EXCLUDES(reading_mutex_);
  std::optional<RunningJob> next_job(const TreePtr& tree, const PlannerReads& reads);
  [[nodiscard]] PlannerInput begin_input(const Tree& tree, Millis now) const;
  void complete_input(Tree& tree, PlannerInput* input) const;
  Attempt try_start(Tree& tree, const PlannerInput& input, const Plan& plan, std::optional<RunningJob>* job);
  void run(const TreePtr& tree, const RunningJob& job);
  [[nodiscard]] bool takes_quarantined(const Tree& tree, const Plan& plan) const;

  const Env env_;
  std::atomic<int> paused_{0};
  std::atomic<std::uint64_t> running_{0}, bounds_broken_{0};
  Mutex reading_mutex_;
  std::map<TreeId, Reading> reading_ GUARDED_BY(reading_mutex_);  ///< trees whose planners must read a table's index
};

}  // namespace ebbtide
