// The parts of the engine and how they are connected. Components that do not know the database are in folders of their own:
//
//   trees/        all trees, one tree, the views that readers use, leases
//   read/         lookups, iterators, fetches, scans, estimates, filter memory
//   write/        the commit pipeline, the tree of each operation, large batches, delays and refusals, the memory budget
//   background/   flushes, planners and compactions, edits of the manifest, punching, scrub, quarantine, room on the disk,
//                 read-only mode, timed work
//   purge/        finds out when deletes have left all files
//   admin/        statistics, a tree in numbers and as a picture, checkpoints
//
// Code that knows the whole database is in files of this folder:
//
//   commit_env.h   functions that commits call             wiring.cc      connects the components
//   recovery.cc    opens and closes the database           log_replay.h   replays the log at open
//   admin.cc       statistics, shape, damage and checkpoints of the whole database
//
// Locks, in the order in which they may nest:
//   Maintenance's               held during a tick, so that only one tick runs at a time
//   Retention's                 held during a tick of Retention
//   PurgeTracker's              held during a survey; never held across I/O, except to check whether files exist
//   DeadlineTracker's           guards the trees' deadlines; never held across I/O
//   WriteController's           held during a measurement of the pressure; never held across I/O
//   Flusher::gate               flushes of different trees share it; recovery after an error holds it alone; held across I/O
//   ManifestEditor::mutex       held across I/O by each change of the set of tables; readers and writers never take it
//   TreeRegistry::commit_mutex  the short critical section of a commit: seqs, databases, active memtables
//   TreeRegistry::state_mutex   guards trees' views and frozen memtables; never held across I/O
//   Health's                    guards the failure that made the database read-only; no other lock is taken while it is held
// A tree's view is read without any lock, inside the epoch.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <engine/db.h>
#include <engine/events.h>
#include "base/background_pool.h"
#include "base/clock.h"
#include "base/epoch.h"
#include "base/mutex.h"
#include "cache/block_cache.h"
#include "compaction/executor.h"
#include "compaction/job_registry.h"
#include "db/admin/checkpoint.h"
#include "db/admin/workload_recorder.h"
#include "db/background/compaction_job.h"
#include "db/background/compaction_scheduler.h"
#include "db/background/deadline_keeper.h"
#include "db/background/disk_watch.h"
#include "db/background/failed_outputs.h"
#include "db/background/file_watch.h"
#include "db/background/flush_job.h"
#include "db/background/flush_scheduler.h"
#include "db/background/flusher.h"
#include "db/background/health.h"
#include "db/background/hole_puncher.h"
#include "db/background/maintenance.h"
#include "db/background/manifest_editor.h"
#include "db/background/obsolete_files.h"
#include "db/background/planner_memory.h"
#include "db/background/progress.h"
#include "db/background/quarantine.h"
#include "db/background/reaper.h"
#include "db/background/requested_work.h"
#include "db/background/scrubber.h"
#include "db/background/table_installer.h"
#include "db/commit_env.h"
#include "db/engine_time.h"
#include "db/log_replay.h"
#include "db/purge/deadline_tracker.h"
#include "db/purge/log_retirer.h"
#include "db/purge/purge_ledger.h"
#include "db/purge/purge_tracker.h"
#include "db/purge/retention.h"
#include "db/purge/surveyor.h"
#include "db/read/filter_memory.h"
#include "db/read/key_estimate.h"
#include "db/read/page_fetcher.h"
#include "db/read/view_parts.h"
#include "db/trees/lease_registry.h"
#include "db/trees/tree_registry.h"
#include "db/write/commit_counter.h"
#include "db/write/commit_pipeline.h"
#include "db/write/committer.h"
#include "db/write/load_meter.h"
#include "db/write/memory_budget.h"
#include "db/write/memtable_relief.h"
#include "db/write/staged_writer.h"
#include "db/write/staging.h"
#include "db/write/tree_placer.h"
#include "db/write/write_controller.h"
#include "io/file_system.h"
#include "io/open_files.h"
#include "io/removals_fs.h"
#include "policy/policy.h"
#include "table/index_cache.h"
#include "version/version_set.h"
#include "wal/group_commit.h"

namespace ebbtide {

/// Checks the settings without reading the data directory. kInvalidArgument names the wrong setting. Defined in recovery.cc.
Status check_settings(const Settings& settings);

struct DbImpl {
  DbImpl(const Settings& settings, const Components& components);
  ~DbImpl();

  // recovery.cc
  Status open();
  Status close();
  void heal_lost_files();

  // db.cc
  /// Applies the delete deadlines of changed tree settings.
  void apply_deadlines() EXCLUDES(manifest_.mutex);
  Result<std::unique_ptr<StagedBatch>> stage(WriteBatch&& batch, const std::atomic<bool>* stop);
  static StagedParts* parts_of(StagedBatch& staged) { return staged.impl_.get(); }

  // admin.cc
  [[nodiscard]] Stats stats();
  [[nodiscard]] Result<TreeInfo> tree_info(DatabaseId database);
  [[nodiscard]] Result<TreeMap> tree_map(DatabaseId database, std::size_t max_cells);
  [[nodiscard]] Result<Workload> workload(DatabaseId database);
  Result<VerifyReport> verify(DatabaseId database);
  std::vector<std::string> damage();
  Result<CheckpointReport> checkpoint(const std::string& target);
  Result<CheckpointState> checkpoint_state(SeqNum visible_seq) EXCLUDES(manifest_.mutex);

  // wiring.cc
  Surveyor::Env surveyor_env();
  LogRetirer::Env log_retirer_env();
  LogReplay::Env log_replay_env();
  Retention::Env retention_env();
  CommitEnv commit_env();
  CommitCounter::Env commit_counter_env();
  StagedWriter::Env staged_writer_env();
  LoadMeter::Env load_meter_env();
  MemTableRelief::Env relief_env();
  DeadlineKeeper::Env deadline_keeper_env();
  Reaper::Env reaper_env();
  WorkloadRecorder::Env workload_env();
  Maintenance::Env maintenance_env();
  TreeRegistry::Env trees_env();
  TreePlacer::Env placer_env();
  FileWatch::Env file_watch_env();
  ManifestEditor::Env manifest_env();
  FailedOutputs::Env outputs_env();
  Flusher::Env flusher_env();
  ObsoleteFileRemover::Env obsolete_files_env();
  Scrubber::Env scrubber_env();
  HolePuncher::Env hole_puncher_env();
  Health::Env health_env();
  Quarantine::Env quarantine_env();
  TableInstaller::Env installer_env();
  FlushJob::Env flush_job_env();
  FlushScheduler::Env flush_scheduler_env();
  CompactionJob::Env job_env();
  CompactionScheduler::Env scheduler_env();
  Progress::Env progress_env();
  RequestedWork::Env requested_work_env();
  FilterFitEnv filter_fit_env();
  void background_progressed();
  std::shared_ptr<Lease> lease_of(const TreePtr& tree);
  void scrub(const std::vector<TreeLoad>& loads);
  /// Kinds of background work. Upkeep is recovery from errors, edits of the manifest and removal of files.
  enum class Work : std::uint8_t { kFlush, kUpkeep, kReap, kMerge };
  void submit(Work work, BackgroundPool::Task task);
  [[nodiscard]] bool writable() const;
  [[nodiscard]] std::vector<TreeLoad> tree_loads();
  void say(Severity severity, const std::string& text);
  // recovery.cc
  /// The findings of recover(), which opens tables and replays the log.
  struct Recovered {
    SeqNum last_seq = 0;
    LogReplay::Replayed log;
    VersionEdit damaged;              ///< an edit that quarantines the damaged tables
    std::vector<std::string> unused;  ///< names of files to remove once the log and the manifest are durable without them
  };
  Status open_manifest();
  Status start_time();
  void start_threads();
  Status recover(Recovered* found) EXCLUDES(trees_.commit_mutex);
  Status begin_writing(LogReplay::Replayed log, SeqNum last_seq) EXCLUDES(manifest_.mutex);
  void schedule_pending_work();
  Status open_trees(const std::vector<std::string>& names, SeqNum* last_seq, VersionEdit* damaged) REQUIRES(trees_.commit_mutex);
  Status quarantine_damaged(const VersionEdit& damaged) EXCLUDES(trees_.commit_mutex);
  void compare_stamp_modes() REQUIRES(trees_.commit_mutex);
  void map_database(DatabaseId database, TreePtr tree) REQUIRES(trees_.commit_mutex);
  Status start_log(std::vector<LogSegment> segments, SeqNum last_seq, const Status& uncut);
  Status serve_reads_only(const Status& refused);
  void report_foreign_files(const std::vector<std::string>& names);
  std::vector<std::string> leftovers(const std::vector<std::string>& names);
  Result<LogReplay::Replayed> replay_log() REQUIRES(trees_.commit_mutex);

  // --- constant after construction
  const Settings settings_;
  RemovalsFileSystem removals_;
  FileSystem& fs_;  ///< refers to removals_
  const std::shared_ptr<OpenFiles> open_files_;
  Clock& clock_;
  EventListener* const events_;
  const bool threads_;  ///< false: the caller's pool is used, and there is no log thread and no fetcher thread
  std::uint64_t empty_memtable_bytes_ = 0;  ///< set by open()

  // --- own synchronization. A table's destructor passes the table's files to some of these members. The epoch's destructor may
  // destroy the last view of a table, so these members are declared before the epoch.
  TreeRegistry trees_;
  TreePlacer placer_;
  ManifestEditor manifest_;
  ObsoleteFileRemover obsolete_files_;
  PurgeLedger ledger_;
  Surveyor surveyor_;
  PurgeTracker purges_;
  LogPins log_pins_;  ///< pins are added and removed under manifest_.mutex
  LogRetirer log_retirer_;
  Retention retention_;
  DeadlineTracker deadlines_;
  Health health_;
  Quarantine quarantine_;
  HolePuncher hole_puncher_;
  Scrubber scrubber_;
  PlannerMemory planner_memory_;
  CompactionTotals compaction_totals_;
  TableInstaller installer_;
  const CompactionJob::Env job_env_;
  CompactionScheduler scheduler_;
  FlushJob flush_job_;
  FailedOutputs outputs_;
  Flusher flusher_;
  FlushScheduler flush_scheduler_;
  IndexCache indexes_{epoch_};  ///< declared before the epoch, whose destructor frees tables that use the cache
  Epoch epoch_;
  EngineTime time_;
  std::unique_ptr<BlockCache> cache_;
  std::unique_ptr<GroupCommit> log_;
  std::unique_ptr<PageFetcher> fetcher_;
  std::unique_ptr<ThreadPool> own_pool_;  ///< threads for compactions
  // A task in one of these two pools never waits for a task of another kind.
  std::unique_ptr<ThreadPool> flush_pool_;   ///< threads for flushes, which run side by side for different trees
  std::unique_ptr<ThreadPool> upkeep_pool_;  ///< one thread for recovery from errors, edits of the manifest, removal of files
  std::unique_ptr<ThreadPool> reaper_pool_;  ///< one thread for the reaper, whose commits may wait for flushes and compactions
  BackgroundPool* pool_ = nullptr;
  const std::shared_ptr<std::atomic<bool>> alive_ = std::make_shared<std::atomic<bool>>(true);
  std::unique_ptr<FileLock> file_lock_;
  std::unique_ptr<VersionSet> versions_;  ///< any thread may call new_file(); other calls need manifest_.mutex
  Publication published_;
  LeaseRegistry leases_;
  /// A shared_ptr, since charged values and pinned pages may outlive the database and release their charge later.
  const std::shared_ptr<MemoryAccount> memory_ = std::make_shared<MemoryAccount>();
  ReadEnv reads_{
      .counters{settings_.databases}, .epoch = epoch_, .memory = *memory_, .first_stamp_mode = [this](DatabaseId database) {
        return trees_.configured_stamp_mode(database);
      }};
  MemoryBudget budget_;
  WriteController writes_;
  std::atomic<bool> closing_{false};
  Mutex link_mutex_;  ///< held while data files are linked or punched, since a file with a second name must keep its bytes

  Millis opened_at_ = 0;  ///< engine time; set by open()

  CommitPipeline<CommitEnv> pipeline_;
  CommitCounter commit_counter_;
  StagedWriter staged_writer_;
  Committer<CommitEnv> committer_;

  Progress progress_;
  RequestedWork requested_work_;
  DiskWatch disk_;
  LoadMeter load_meter_;  ///< measures the load for writes_
  MemTableRelief relief_;
  DeadlineKeeper deadline_keeper_;
  Reaper reaper_;
  FileWatch file_watch_;
  WorkloadRecorder workload_;
  Maintenance maintenance_;
};

}  // namespace ebbtide
