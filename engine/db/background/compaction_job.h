// Carries out a plan: writes outputs from its inputs, commits an edit of the manifest, and gives readers a new view.
//
//   prepare  gets the tree's tables and settings, the time, and the highest seq that readers see
//   write    reads inputs and writes outputs (compaction/executor.h); no lock is held
//   install  holds the manifest mutex: checks the edit against the tree as it is now, commits it, gives readers the new tables
//
// Inputs are busy from the choice of the plan to the end of the job (compaction/job_registry.h), so no other job replaces them.
// Outputs that are not installed are unlinked. If the manifest may name them, they are disowned instead
// (db/background/obsolete_files.h).
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
  // Counts of file drops and page drops.
  std::atomic<std::uint64_t> files_dropped{0}, pages_dropped{0}, pages_dropped_in_part{0};
  std::atomic<std::uint64_t> dropped_bytes{0};  ///< bytes of files dropped as a whole, without bytes punched earlier

  void add(const Plan& plan, const CompactionResult& result);
  /// Adds the files and pages of a drop. `version`: the tree's version when the drop was planned.
  void add_drop(const Version& version, const CompactionResult& result);
};

class CompactionJob {
 public:
  using OpenedTables = std::map<FileNum, std::shared_ptr<TableReader>>;  ///< key: number of the metadata file

  /// The state of a tree when the job starts.
  struct Start {
    std::shared_ptr<const void> working{};  ///< Tree::work: while it is shared, files are being written for the tree
    std::shared_ptr<const TablesView> tables{};
    std::shared_ptr<const Policy> policy{};
    TreeSettings settings{};
  };

  /// The parts of the database that jobs use. Thread-safe; must outlive all jobs.
  struct Env {
    const Clock* clock = nullptr;
    Mutex* manifest_mutex = nullptr;
    Mutex* state_mutex = nullptr;  ///< guards trees (db/trees/tree.h)
    CompactionTotals* totals = nullptr;
    PlannerMemory* memory = nullptr;
    HolePuncher* puncher = nullptr;
    std::function<TreeSettings(const Tree&)> settings;  ///< returns the settings for new tables; called with the state mutex held
    /// Returns CompactionContext::filters for a plan.
    std::function<std::map<RunId, std::vector<double>>(const Tree&, const TablesView&, const Plan&)> filters;
    std::function<Millis()> now;  ///< engine time
    std::function<SeqNum()> visible_seq;
    std::function<Status(std::uint64_t bytes, bool may_use_deadline_room)> may_write;
    std::function<CompactionEnv(std::shared_ptr<const TablesView>, const std::vector<PlanInput>& inputs,
                                const std::atomic<bool>* abort, OpenedTables*)>
        compaction_env;
    /// Measures the rate of merges. The job calls this function at its end, with its bytes read and its duration.
    std::function<void(std::uint64_t bytes_read, std::uint64_t nanos)> measured;
    std::function<void(const TreePtr&)> write_failed;  ///< called after a failed write whose outputs were unlinked

    // Called with the manifest mutex held.
    std::function<VersionPtr(TreeId)> version;  ///< returns the version in the manifest; null: the tree was dropped
    std::function<Status(VersionEdit)> commit;
    /// Returns the tree's tables after the edit.
    std::function<Result<std::shared_ptr<const TablesView>>(Tree&, const OpenedTables&)> install;
    std::function<void(const TreePtr&, const CompactionResult&)> unlink;
    std::function<void(const TreePtr&, const CompactionResult&)> disown;
    std::function<void(const Status&)> commit_failed;
  };

  /// `env` and `job` must outlive the job object.
  CompactionJob(const Env& env, TreePtr tree, const RunningJob& job) : env_(env), tree_(std::move(tree)), job_(job) {}

  /// Returns kAborted if the job was stopped, for example because an urgent job needs its files, or if the edit no longer fits
  /// the tree. Then nothing changes.
  Status run();

 private:
  Status prepare() EXCLUDES(*env_.state_mutex);
  Status write();
  Status install() EXCLUDES(*env_.manifest_mutex);
  [[nodiscard]] bool is_for_deadline() const { return job_.plan.reason == Reason::kDeadline; }

  const Env& env_;
  const TreePtr tree_;
  const RunningJob& job_;
  Start start_;
  CompactionContext context_;
  OpenedTables opened_;  // readers of the output tables
  CompactionResult result_;
};

}  // namespace ebbtide
