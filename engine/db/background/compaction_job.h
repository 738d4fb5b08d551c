// Carries out a plan: turns its inputs into outputs, commits an edit of the manifest, and gives readers a new view.
//
//   prepare  reads tables, settings, the time, and the highest seq that a reader has
//   write    reads inputs and writes outputs (compaction/executor.h); no lock is held
//   install  holds the manifest mutex: checks the edit against the tree as it is now, commits it, gives readers the new tables
//
// Inputs are busy from the choice of the plan to the end of the job (compaction/job_registry.h), so no other job replaces them.
// Outputs that are not installed are unlinked; if the manifest may name them, they are disowned (db/background/obsolete_files.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <engine/result.h>
#include "base/clock.h"
#include "base/mutex.h"
#include "compaction/executor.h"
#include "compaction/job_registry.h"
#include "db/background/hole_puncher.h"
#include "db/background/planner_memory.h"
#include "db/trees/tree.h"
#include "version/version_edit.h"

namespace ebbtide {

/// Totals of all jobs since the start.
struct CompactionTotals {
  std::atomic<std::uint64_t> jobs{0}, bytes_read{0}, bytes_written{0}, files_moved{0}, sub_merges{0};
  std::array<std::atomic<std::uint64_t>, kReasons> jobs_by_reason{}, read_by_reason{}, written_by_reason{};
  // by drops
  std::atomic<std::uint64_t> files_dropped{0}, pages_dropped{0}, pages_dropped_in_part{0};
  std::atomic<std::uint64_t> dropped_bytes{0};  ///< of files dropped as a whole, without bytes punched before

  void add(const Plan& plan, const CompactionResult& result);
  /// `version`: the tree's version when the drop was planned.
  void add_drop(const Version& version, const CompactionResult& result);
};

class CompactionJob {
 public:
  using OpenedTables = std::map<FileNum, std::shared_ptr<TableReader>>;  ///< by metadata file

  /// A tree when the job starts.
  struct Start {
    std::shared_ptr<const void> working{};  ///< while held: the tree knows that a job writes files for it
    std::shared_ptr<const TablesView> tables{};
    std::shared_ptr<const Policy> policy{};
    TreeSettings settings{};
    std::map<RunId, std::vector<double>> filters{};  ///< CompactionContext::filters
  };

  /// The parts of the database that jobs use. Thread-safe; outlives all jobs.
  struct Env {
    const Clock* clock = nullptr;
    Mutex* manifest_mutex = nullptr;
    CompactionTotals* totals = nullptr;
    PlannerMemory* memory = nullptr;
    HolePuncher* puncher = nullptr;
    std::uint64_t memtable_size = 0;
    std::function<bool(const Tree&, const Plan&, Start*)> start;  ///< false: the tree was dropped
    std::function<Millis()> now;                                  ///< engine time
    std::function<SeqNum()> visible_seq;
    std::function<std::uint64_t()> deadline_room;  ///< bytes of the disk that merges for deadlines may take
    std::function<Status(std::uint64_t bytes, bool may_use_deadline_room)> may_write;
    std::function<CompactionEnv(std::shared_ptr<const TablesView>, const std::atomic<bool>* abort, OpenedTables*)> compaction_env;
    std::function<void(std::uint64_t bytes_read, std::uint64_t nanos)> measured;  ///< the rate of merges
    std::function<void(const TreePtr&)> write_failed;                             ///< outputs were unlinked

    // called with the manifest mutex held
    std::function<VersionPtr(TreeId)> version;  ///< by the manifest; null: the tree was dropped
    std::function<Status(VersionEdit)> commit;
    std::function<Result<std::shared_ptr<const TablesView>>(Tree&, const OpenedTables&)> install;  ///< the tree's tables now
    std::function<void(const TreePtr&, const CompactionResult&)> unlink;
    std::function<void(const TreePtr&, const CompactionResult&)> disown;
    std::function<void(const Status&)> commit_failed;
  };

  /// `env` and `job` outlive it.
  CompactionJob(const Env& env, TreePtr tree, const RunningJob& job) : env_(env), tree_(std::move(tree)), job_(job) {}

  /// kAborted: another job needed the files, or the tree has changed so that the edit does not apply. Then nothing changes.
  Status run();

 private:
  Status prepare();
  Status write();
  Status install() EXCLUDES(*env_.manifest_mutex);
  [[nodiscard]] bool is_for_deadline() const { return job_.plan.reason == Reason::kDeadline; }

  const Env& env_;
  const TreePtr tree_;
  const RunningJob& job_;
  Start start_;
  CompactionContext context_;
  OpenedTables opened_;  // outputs
  CompactionResult result_;
};

}  // namespace ebbtide
