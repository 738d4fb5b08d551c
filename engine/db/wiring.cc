// Connects the components: for each component, defines the functions of other components that it calls (its Env).
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "compaction/table_files.h"
#include "db/db_impl.h"
#include "tree/frozen.h"

namespace ebbtide {

// Wraps the task in a check of `alive_`, since a caller's pool may run the task after the database is destroyed.
void DbImpl::submit(Work work, BackgroundPool::Task task) {
  BackgroundPool* pool = pool_;
  if (work == Work::kFlush && flush_pool_ != nullptr) pool = flush_pool_.get();
  if (work == Work::kUpkeep && upkeep_pool_ != nullptr) pool = upkeep_pool_.get();
  if (work == Work::kReap && reaper_pool_ != nullptr) pool = reaper_pool_.get();
  pool->submit(work == Work::kMerge ? Priority::kLow : Priority::kHigh, [alive = alive_, task = std::move(task)] {
    if (*alive) task();
  });
}

TreeRegistry::Env DbImpl::trees_env() {
  return {.clock = &clock_,
          .epoch = &epoch_,
          .now = [this] { return time_.stamped(); },
          .last_seq = [this] { return pipeline_.last_seq(); },
          .frozen = [this](const TreePtr& tree) { flush_scheduler_.schedule(tree); },
          .filters_changed = [this](const TreePtr& tree) { manifest_.schedule_filter_fit(tree); }};
}

TreePlacer::Env DbImpl::placer_env() {
  return {.trees = &trees_,
          .new_tree = [this] { return versions_->new_tree(); },
          .sequence =
              [this](WriteBatch& creation, TreeId tree, Millis time) {
                pipeline_.assign(creation, time);
                const LogNote note{tree, 0, 0};
                log_->enqueue(creation, std::span(&note, 1));
              },
          .mapping_changed = [this] { manifest_.schedule_mapping(); }};
}

bool DbImpl::writable() const { return health_.is_ok() && !closing_; }

void DbImpl::say(Severity severity, const std::string& text) {
  if (events_ != nullptr) events_->on_message(severity, text);
}

std::vector<TreeLoad> DbImpl::tree_loads() {
  return trees_.loads([this](TreeId id) { return planner_memory_.merges_fail(id); });
}

Surveyor::Env DbImpl::surveyor_env() {
  return {.trees = &trees_,
          .ledger = &ledger_,
          .advance_time =
              [this](SeqNum* last) {
                *last = pipeline_.last_seq();
                return pipeline_.advance_time(time_.stamped());
              },
          .await_visible = [this](SeqNum seq) { published_.await(seq); },
          .now = [this] { return time_.now(); },
          .segments = [this] { return log_->segments(); }};
}

LogReplay::Env DbImpl::log_replay_env() {
  return {.fs = &fs_,
          .dir = settings_.dir,
          .trees = &trees_,
          .versions = versions_.get(),
          .published = &published_,
          .memory_budget = budget_.bytes(),
          .empty_memtable_bytes = empty_memtable_bytes_,
          .advance_time = [this](Millis time) { pipeline_.advance_time(time); },
          .flush =
              [this](const std::vector<TreePtr>& trees) {
                FlushGateAlone alone(flusher_.gate);
                return flusher_.flush_replayed(trees);
              },
          .collect = [this] { epoch_.collect(); },
          .progressed =
              [this](std::uint64_t done, std::uint64_t total) {
                if (events_ != nullptr) events_->on_recovery_progress(done, total);
              },
          .warn = [this](const std::string& text) { say(Severity::kWarning, text); }};
}

LogRetirer::Env DbImpl::log_retirer_env() {
  return {.trees = &trees_,
          .end_segment =
              [this](FileNum file) {
                log_->end_segment(file);
                log_->give_up_pieces(file);
              },
          .segments = [this] { return log_->segments(); },
          .hurry = [this](const TreePtr& tree) { flush_scheduler_.hurry(tree); }};
}

Retention::Env DbImpl::retention_env() {
  return {.clock = &clock_,
          .tracker = &purges_,
          .ledger = &ledger_,
          .pins = &log_pins_,
          .log_begins = [this] { return manifest_.log_begins(); },
          .causes =
              [this] {
                return MissCauses{opened_at_, time_.last_step(), health_.disk_refused_at()};
              },
          .revoke_views = [this](const PurgeSurvey& survey) { revoke_hindering_leases(&leases_, survey); },
          .flush = [this](TreeId tree, bool freeze) { log_retirer_.flush(tree, freeze); },
          .retire_segments = [this](FileNum last) { log_retirer_.retire_until(last); },
          .submit = [this](std::function<void()> work) { submit(Work::kUpkeep, std::move(work)); },
          .shorten = [this](bool roll) { return manifest_.shorten(roll); },
          .sync_dir = [this] { return fs_.sync_dir(settings_.dir); },
          .closing = [this] { return closing_.load(); },
          .failed = [this](const Status& status) { health_.failed(status, "shortening the log or the manifest"); },
          .report_error = [this](const std::string& text) { say(Severity::kError, text); }};
}

CommitEnv DbImpl::commit_env() {
  return {.time = time_,
          .health = health_,
          .disk = disk_,
          .trees = trees_,
          .placer = placer_,
          .manifest = manifest_,
          .log_owner = log_};
}

CommitCounter::Env DbImpl::commit_counter_env() {
  return {.clock = &clock_, .counters = &reads_.counters, .budget = &budget_, .writes = &writes_, .relieve = [this] {
            relief_.relieve_memory();
          }};
}

StagedWriter::Env DbImpl::staged_writer_env() {
  return {
      .trees = &trees_,
      .placer = &placer_,
      .published = &published_,
      .budget = &budget_,
      .memory = memory_,
      .counter = &commit_counter_,
      .log = [this]() -> GroupCommit& { return *log_; },
      .begin = [this](const WriteBatch& batch, Inserts* inserts, Millis* time) { return pipeline_.begin(batch, inserts, time); },
      .assign = [this](WriteBatch& batch, Millis time) { pipeline_.assign(batch, time); },
      .last_seq = [this] { return pipeline_.last_seq(); }};
}

LoadMeter::Env DbImpl::load_meter_env() {
  return {.memtable_size = [this] { return trees_.largest_memtable_size(); },
          .loads = [this] { return tree_loads(); },
          .empty_memtable_bytes = [this] { return empty_memtable_bytes_; },
          .memory_budget = [this] { return budget_.bytes() - std::min(budget_.overhead(), budget_.bytes() / 2); },
          .charged_bytes = [this] { return memory_->charged(); },
          .merge_bytes_per_ms = [this] { return deadlines_.merge_bytes_per_ms(); },
          .deadline_permille = [this] { return deadlines_.needed_permille(); },
          .compactions_paused = [this] { return scheduler_.paused(); },
          .index_bytes = [this] { return indexes_.counts().bytes; }};
}

MemTableRelief::Env DbImpl::relief_env() {
  return {.trees = &trees_,
          .budget = &budget_,
          .most_log_bytes = [this] { return 4 * std::max(settings_.wal_segment_size, trees_.largest_memtable_size()); },
          .empty_memtable_bytes = [this] { return empty_memtable_bytes_; },
          .log_bytes = [this] { return log_->live_bytes(); },
          .pending_piece_bytes = [this] { return log_->pending_piece_bytes(); },
          .give_up_pieces_before = [this](SeqNum seq) { log_->give_up_pieces_before(seq); },
          .oldest_needed = [this](SeqNum seq) { return log_->oldest_needed(seq); },
          .hurry = [this](const TreePtr& tree) { flush_scheduler_.hurry(tree); }};
}

DeadlineKeeper::Env DbImpl::deadline_keeper_env() {
  return {.trees = &trees_,
          .tracker = &deadlines_,
          .now = [this] { return time_.now(); },
          .room = [this] { return disk_.room(DiskUse::kDeadline); },
          .hurry = [this](const TreePtr& tree) { flush_scheduler_.hurry(tree); }};
}

Reaper::Env DbImpl::reaper_env() {
  return {.trees = &trees_,
          .now = [this] { return time_.now(); },
          .fence = [this] { return surveyor_.fence(); },
          .lease =
              [this](const TreePtr& tree, DatabaseId database, Millis now) {
                std::shared_ptr<Lease> lease = lease_of(tree);
                return lease == nullptr ? ReadView() : ViewParts::leased_view(reads_, database, std::move(lease), now);
              },
          .commit = [this](WriteBatch& batch) { return committer_.commit(batch); },
          .wait_synced = [this](SeqNum seq) { return log_->wait_synced(seq); },
          .progressed =
              [this](const TreePtr& tree) {
                planner_memory_.forget_fruitless(tree->id);
                scheduler_.schedule(tree);
              },
          .submit = [this](std::function<void()> work) { submit(Work::kReap, std::move(work)); },
          .writable = [this] { return writable() && !log_->failed(); },
          .log = [this](Severity severity, const std::string& text) { say(severity, text); }};
}

WorkloadRecorder::Env DbImpl::workload_env() {
  return {.fs = &fs_,
          .dir = settings_.dir,
          .keep = settings_.keep_workload,
          .counters = &reads_.counters,
          .now = [this] { return time_.now(); },
          .writable = [this] { return writable(); },
          .submit = [this](std::function<void()> work) { submit(Work::kUpkeep, std::move(work)); },
          .warn = [this](const std::string& text) { say(Severity::kWarning, text); }};
}

// The order of the steps matters: steps that make room come before steps that need room.
Maintenance::Env DbImpl::maintenance_env() {
  using Loads = Maintenance::Loads;
  return {.disk = &disk_,
          .open_files = open_files_.get(),
          .advance_clock = [this] { return time_.tick(); },
          .step_refused = [this] { return time_.step_refused(); },
          .write_mark =
              [this](Millis mark) {
                if (manifest_.try_time_mark(mark, time_.boot_mark(mark))) time_.set_mark(mark);
              },
          .logged_bytes = [this] { return log_->bytes_written(); },
          .log_bytes = [this] { return log_->live_bytes(); },
          .loads = [this] { return tree_loads(); },
          .submit = [this](std::function<void()> work) { submit(Work::kMerge, std::move(work)); },
          .log = [this](Severity severity, const std::string& text) { say(severity, text); },
          .begin =
              [this] {
                commit_counter_.note_tick();
                if (log_->failed()) health_.failed(log_->status(), "log");
                health_.tick();
              },
          .steps =
              {
                  [this](const Loads&) { relief_.relieve_log(); },
                  [this](const Loads&) { relief_.relieve_memory(); },
                  [this](const Loads& loads) { deadline_keeper_.tick(loads); },
                  [this](const Loads& loads) { reaper_.tick(loads); },
                  [this](const Loads& loads) {
                    for (const TreeLoad& load : loads) {
                      flush_scheduler_.schedule(load.tree);
                      scheduler_.make_way(load.tree);
                      scheduler_.schedule(load.tree);
                      hole_puncher_.schedule(load.tree->id);
                    }
                  },
                  [this](const Loads&) { writes_.measure(); },
                  [this](const Loads&) { obsolete_files_.tick(); },
                  [this](const Loads&) { manifest_.schedule_deadlines(); },
                  [this](const Loads&) { file_watch_.tick(); },
                  [this](const Loads&) { retention_.tick(); },
                  [this](const Loads&) { quarantine_.tick(); },
                  [this](const Loads&) { workload_.tick(); },
                  [this](const Loads& loads) { scrub(loads); },
              }};
}

FileWatch::Env DbImpl::file_watch_env() {
  return {.fs = &fs_,
          .dir = settings_.dir,
          .clock = &clock_,
          .healthy = [this] { return health_.is_ok() && !log_->failed(); },
          .renew_lock = [this] { return file_lock_->renew(); },
          .check_directory = [this] { return file_lock_->check_directory(); },
          .directory_lost = [this](const Status& why) { health_.failed(why, "data directory"); },
          .segments = [this] { return log_->segments(); },
          .log_lost = [this](FileNum file, const Status& why) { log_->lose_segment(file, why); },
          .with_manifest =
              [this](const std::function<Status(FileNum, std::uint64_t)>& check) { return manifest_.check_manifest(check); },
          .manifest_lost = [this](const Status& why) { health_.failed(why, "manifest"); },
          .manifest_damaged =
              [this](FileNum file, const Status& why) {
                {
                  MutexLock lock(manifest_.mutex);
                  if (versions_->manifest_file() != file || !versions_->status().is_ok()) return;
                }
                health_.failed(why, "manifest");
              },
          .table_files =
              [this] {
                std::set<std::string> names;
                for (const auto& tables : trees_.live_tables()) {
                  for (const RunView& run : tables->runs) {
                    for (const OpenTablePtr& table : run.tables()) {
                      if (tables->is_quarantined(table->meta->data_file)) continue;
                      names.insert(data_file_name(table->meta->data_file));
                      names.insert(metadata_file_name(table->meta->metadata_file));
                    }
                  }
                }
                return names;
              },
          .submit = [this](std::function<void()> work) { submit(Work::kMerge, std::move(work)); },
          .closing = [this] { return closing_.load(); },
          .log = [this](Severity severity, const std::string& text) { say(severity, text); }};
}

ManifestEditor::Env DbImpl::manifest_env() {
  return {.trees = &trees_,
          .ledger = &ledger_,
          .pins = &log_pins_,
          .installer = &installer_,
          .obsolete_files = &obsolete_files_,
          .versions = [this]() -> VersionSet& { return *versions_; },
          .now = [this] { return time_.now(); },
          .stamped = [this] { return time_.stamped(); },
          .fence = [this] { return surveyor_.fence(); },
          .floor = [this](const TreePtr& tree) { return surveyor_.floor_of(tree); },
          .wait_synced = [this](SeqNum seq) { return log_->wait_synced(seq); },
          .oldest_needed = [this](SeqNum seq) { return log_->oldest_needed(seq); },
          .segments = [this] { return log_->segments(); },
          .log_tip = [this]() -> LogTip {
            return {log_->newest_segment(), log_->synced_seq()};
          },
          .has_segments_below = [this](FileNum file) { return !log_->segments_below(file).empty(); },
          .take_segments_below = [this](FileNum file) { return log_->take_segments_below(file); },
          .await_settled = [this](SeqNum seq) { published_.await_settled(seq); },
          .forget =
              [this](TreeId id) {
                hole_puncher_.forget(id);
                planner_memory_.forget(id);
              },
          .submit = [this](std::function<void()> work) { submit(Work::kUpkeep, std::move(work)); },
          .submit_later = [this](std::function<void()> work) { submit(Work::kMerge, std::move(work)); },
          .closing = [this] { return closing_.load(); },
          .healthy = [this] { return health_.is_ok(); },
          .failed = [this](const Status& status, const char* what) { health_.failed(status, what); },
          .mapping_written =
              [this] {
                progress_.notify();
                writes_.wake();
                obsolete_files_.remove_queued();
              }};
}

FailedOutputs::Env DbImpl::outputs_env() {
  return {.ledger = &ledger_, .fs = &removals_, .obsolete_files = &obsolete_files_, .floor = [this](const TreePtr& tree) {
            return surveyor_.floor_of(tree);
          }};
}

Flusher::Env DbImpl::flusher_env() {
  return {.trees = &trees_,
          .manifest = &manifest_,
          .job = &flush_job_,
          .installer = &installer_,
          .outputs = &outputs_,
          .obsolete_files = &obsolete_files_,
          .versions = [this]() -> VersionSet& { return *versions_; },
          .now = [this] { return time_.stamped(); },
          .visible_seq = [this] { return published_.visible_seq(); },
          .await_visible = [this](SeqNum seq) { published_.await(seq); },
          .last_seq = [this] { return pipeline_.last_seq(); },
          .log_failed = [this] { return log_->failed(); },
          .synced_seq = [this] { return log_->synced_seq(); },
          .wait_synced = [this](SeqNum seq) { return log_->wait_synced(seq); },
          .salvage = [this] { log_->salvage(); },
          .prepare_restart = [this] { return log_->prepare_restart(); },
          .restart = [this](SeqNum last) { log_->restart_after_failure(last); }};
}

ObsoleteFileRemover::Env DbImpl::obsolete_files_env() {
  return {.clock = &clock_,
          .fs = &removals_,
          .dir = settings_.dir,
          .collect = [this] { epoch_.collect(); },
          .forget = [this](FileNum file) { cache_->erase_file(file); },
          .submit = [this](std::function<void()> work) { submit(Work::kUpkeep, std::move(work)); },
          .warn = [this](const std::string& text) { say(Severity::kWarning, text); }};
}

Scrubber::Env DbImpl::scrubber_env() {
  return {.now = [this] { return time_.now(); },
          .lease = [this](TreeId id) { return lease_of(trees_.tree_with(id)); },
          .read = [this](const FileMeta& meta, const std::function<bool()>& stopped,
                         TableCheck* check) { return errors_on_drive(fs_, settings_.dir, meta, stopped, check); },
          .find_files = [this](const FileMeta& meta) { return find_files(fs_, settings_.dir, meta); },
          .report_damage = [this](FileNum file, const std::vector<Status>& errors) { quarantine_.report(file, errors); },
          .take_damage = [this] { return quarantine_.take_reports(); },
          .found_whole = [this](FileNum file) { return quarantine_.found_whole(file); },
          .submit = [this](std::function<void()> work) { submit(Work::kMerge, std::move(work)); },
          .closing = [this] { return closing_.load(); },
          .report_error = [this](const std::string& text) { say(Severity::kError, text); }};
}

HolePuncher::Env DbImpl::hole_puncher_env() {
  return {.clock = &clock_,
          .fs = &fs_,
          .dir = settings_.dir,
          .link_mutex = &link_mutex_,
          .tables = [this](TreeId id) { return trees_.live_tables(id); },
          .writable = [this] { return writable(); },
          .commit = [this](const TableChange& change) { return manifest_.commit_change(change); },
          .submit = [this](std::function<void()> work) { submit(Work::kMerge, std::move(work)); },
          .done =
              [this](TreeId id) {
                if (const TreePtr tree = trees_.tree_with(id); tree != nullptr) scheduler_.schedule(tree);
              },
          .failed = [this](const Status& status) { health_.failed(status, "punching"); },
          .closing = [this] { return closing_.load(); },
          .warn = [this](const std::string& text) { say(Severity::kWarning, text); }};
}

Quarantine::Env DbImpl::quarantine_env() {
  return {
      .clock = &clock_,
      .fs = &fs_,
      .dir = settings_.dir,
      .link_mutex = &link_mutex_,
      .ledger = &ledger_,
      .live_tables = [this] { return trees_.live_tables(); },
      .commit = [this](const TableChange& change) { return manifest_.commit_change(change); },
      .open = [this](const FileMeta& meta) { return installer_.open(meta); },
      .open_unreadable = [this](const FileMeta& meta, Status why) { return installer_.open_unreadable(meta, std::move(why)); },
      .read = [this](const FileMeta& meta, const std::function<bool()>& stopped,
                     TableCheck* check) { return errors_on_drive(fs_, settings_.dir, meta, stopped, check); },
      .floor = [this](TreeId id) { return surveyor_.floor_of(trees_.tree_with(id)); },
      .submit_soon = [this](std::function<void()> work) { submit(Work::kUpkeep, std::move(work)); },
      .submit = [this](std::function<void()> work) { submit(Work::kMerge, std::move(work)); },
      .writable = [this] { return writable(); },
      .closing = [this] { return closing_.load(); },
      .failed = [this](const Status& status) { health_.failed(status, "quarantine"); },
      .changed =
          [this](const std::vector<TreeId>& trees) {
            writes_.measure();
            for (const TreeId id : trees) {
              if (const TreePtr tree = trees_.tree_with(id); tree != nullptr) scheduler_.schedule(tree);
            }
          },
      .log = [this](Severity severity, const std::string& text) { say(severity, text); }};
}

Health::Env DbImpl::health_env() {
  return {.clock = &clock_,
          .gate = &flusher_.gate,
          .now = [this] { return time_.now(); },
          .give_up_reserve = [this] { return disk_.give_up_reserve(); },
          .submit = [this](std::function<void()> work) { submit(Work::kUpkeep, std::move(work)); },
          .closing = [this] { return closing_.load(); },
          .check_directory = [this] { return file_lock_->check_directory(); },
          .recover = [this]() NO_THREAD_SAFETY_ANALYSIS { return flusher_.recover(); },  // Health holds the gate alone
          .changed =
              [this] {
                progress_.notify();
                writes_.wake();
              },
          .healed =
              [this] {
                writes_.measure();
                obsolete_files_.remove_queued();
                for (const TreePtr& tree : trees_.live_trees()) {
                  flush_scheduler_.schedule(tree);
                  scheduler_.schedule(tree);
                }
              },
          .log = [this](Severity severity, const std::string& text) { say(severity, text); }};
}

TableInstaller::Env DbImpl::installer_env() {
  return {.fs = &fs_,
          .dir = settings_.dir,
          .direct_io = settings_.direct_io,
          .open_files = open_files_.get(),
          .indexes = &indexes_,
          .damage = quarantine_.sink(),
          .sink = obsolete_files_.sink(),
          .ledger = &ledger_,
          .state_mutex = &trees_.state_mutex,
          .cache = [this] { return cache_.get(); },
          .pool = [this] { return pool_; },
          .new_file = [this] { return versions_->new_file(); },
          .version = [this](TreeId id) { return versions_->tree(id); },
          .fence = [this] { return surveyor_.fence(); },
          .floor = pending_floor,
          .fit_filters =
              [this](Tree& tree, TablesView& tables) {
                return measure_and_fit_filters(tree, tables, trees_.state_mutex, filter_fit_env());
              },
          .fit_filters_later =
              [this](TreeId id) {
                if (const TreePtr tree = trees_.tree_with(id); tree != nullptr) manifest_.schedule_filter_fit(tree);
              },
          .publish =
              [this](Tree& tree, std::shared_ptr<const TreeView> view) NO_THREAD_SAFETY_ANALYSIS {
                trees_.publish(tree, std::move(view));
                progress_.notify_locked();
              }};
}

FilterFitEnv DbImpl::filter_fit_env() {
  return {clock_, epoch_, [this](const std::string& text) { say(Severity::kWarning, text); }};
}

FlushJob::Env DbImpl::flush_job_env() {
  return {.state_mutex = &trees_.state_mutex,
          .installer = &installer_,
          .empty_memtable_bytes = [this] { return empty_memtable_bytes_; },
          .await_visible = [this](SeqNum seq) { published_.await(seq); },
          .visible_seq = [this] { return published_.visible_seq(); },
          .settings = [](const Tree& tree) { return table_settings(tree); },
          .filters =
              [this](const Tree& tree, const TablesView& tables, std::uint64_t entries) {
                return filters_after_flush(tables, entries, filter_needs(tree, trees_.state_mutex));
              }};
}

FlushScheduler::Env DbImpl::flush_scheduler_env() {
  return {.state_mutex = &trees_.state_mutex,
          .gate = &flusher_.gate,
          .compactions = &scheduler_,
          .trees = [this] { return trees_.live_trees(); },
          .flush = [this](const std::vector<TreePtr>& trees) { return flusher_.flush(trees); },
          .submit = [this](std::function<void()> work) { submit(Work::kFlush, std::move(work)); },
          .may_flush = [this] { return writable(); },
          .closing = [this] { return closing_.load(); },
          .progressed = [this] { background_progressed(); },
          .failed = [this](const Status& status) { health_.failed(status, "flush"); }};
}

// Jobs hold the manifest's mutex while they call commit and install.
CompactionJob::Env DbImpl::job_env() {
  return {.clock = &clock_,
          .manifest_mutex = &manifest_.mutex,
          .state_mutex = &trees_.state_mutex,
          .totals = &compaction_totals_,
          .memory = &planner_memory_,
          .puncher = &hole_puncher_,
          .settings = [](const Tree& tree) { return table_settings(tree); },
          .filters = [this](const Tree& tree, const TablesView& tables,
                            const Plan& plan) { return filters_after(tables, plan, filter_needs(tree, trees_.state_mutex)); },
          .now = [this] { return time_.stamped(); },
          .visible_seq = [this] { return published_.visible_seq(); },
          .may_write =
              [this](std::uint64_t bytes, bool may_use_deadline_room) {
                return disk_.may_compact(bytes, may_use_deadline_room ? DiskUse::kDeadline : DiskUse::kMerge);
              },
          .compaction_env =
              [this](std::shared_ptr<const TablesView> tables, const std::vector<PlanInput>& inputs,
                     const std::atomic<bool>* abort, CompactionJob::OpenedTables* opened) {
                return installer_.compaction_env(std::move(tables), inputs, abort, opened);
              },
          .measured = [this](std::uint64_t bytes_read, std::uint64_t nanos) { deadlines_.note_merge(bytes_read, nanos); },
          .write_failed = [this](const TreePtr& tree) { outputs_.note_failure(tree); },
          .version = [this](TreeId id) { return versions_->tree(id); },
          .commit = [this](VersionEdit edit) NO_THREAD_SAFETY_ANALYSIS { return manifest_.commit(std::move(edit)); },
          .install = [this](Tree& tree, const CompactionJob::OpenedTables& opened)
                         NO_THREAD_SAFETY_ANALYSIS { return installer_.install(tree, opened, 0); },
          .unlink = [this](const TreePtr& tree,
                           const CompactionResult& result) { outputs_.unlink(tree, result.outputs, result.redescribed); },
          .disown = [this](const TreePtr& tree,
                           const CompactionResult& result) { outputs_.disown(tree, result.outputs, result.redescribed); },
          .commit_failed = [this](const Status& status) { health_.failed(status, "compaction"); }};
}

CompactionScheduler::Env DbImpl::scheduler_env() {
  return {.state_mutex = &trees_.state_mutex,
          .memory = &planner_memory_,
          .puncher = &hole_puncher_,
          .run = [this](const TreePtr& tree, const RunningJob& job) { return CompactionJob(job_env_, tree, job).run(); },
          .submit = [this](std::function<void()> work) { submit(Work::kMerge, std::move(work)); },
          .threads = [this] { return pool_->width(); },
          .may_start = [this] { return health_.is_ok(); },
          .closing = [this] { return closing_.load(); },
          .now = [this] { return time_.stamped(); },
          .visible_seq = [this] { return published_.visible_seq(); },
          .estimate_invalidated = estimate_invalidated,
          .is_late =
              [this](const Tree& tree) {
                return deadlines_.is_late(tree.id, tree.margin.load(std::memory_order_relaxed), time_.now());
              },
          .room = [this] { return disk_.room(DiskUse::kDeadline); },
          .claimed = [this] { return disk_.claimed_bytes(); },
          .claim = [this](std::uint64_t bytes) { disk_.claim(bytes); },
          .release = [this](std::uint64_t bytes) { disk_.release(bytes); },
          .flush_waits = [this](const TreePtr& tree) { flush_scheduler_.schedule(tree); },
          .deadline_job_ended = [this](const Status& status) { health_.note_refusal(status); },
          .progressed = [this] { background_progressed(); },
          .take_damage = [this] { return quarantine_.take_reports(); },
          .failed = [this](const Status& status) { health_.failed(status, "compaction"); },
          .report_error = [this](const std::string& text) { say(Severity::kError, text); }};
}

Progress::Env DbImpl::progress_env() {
  return {.state_mutex = &trees_.state_mutex,
          .threads = threads_,
          .error = [this] { return health_.error(); },
          .closing = [this] { return closing_.load(); },
          .run_task = [this] { return pool_->run_one(); }};
}

RequestedWork::Env DbImpl::requested_work_env() {
  return {.trees = &trees_,
          .progress = &progress_,
          .last_seq = [this] { return pipeline_.last_seq(); },
          .run = [this](const TreePtr& tree, const RunningJob& job) { return CompactionJob(job_env_, tree, job).run(); },
          .finish = [this](const TreePtr& tree, const RunningJob& job) { scheduler_.finish(tree, job); },
          .schedule = [this](const TreePtr& tree) { scheduler_.schedule(tree); },
          .progressed = [this] { background_progressed(); }};
}

void DbImpl::background_progressed() {
  progress_.notify();
  writes_.measure();
  obsolete_files_.remove_queued();
}

std::shared_ptr<Lease> DbImpl::lease_of(const TreePtr& tree) {
  return trees_.lease(
      tree, leases_, [this] { return published_.visible_seq(); }, [this] { return time_.now(); });
}

void DbImpl::scrub(const std::vector<TreeLoad>& loads) {
  std::vector<Scrubber::TreeTables> trees;
  for (const TreeLoad& load : loads) trees.push_back({load.tree->id, load.view->tables});
  scrubber_.tick(trees);
}

}  // namespace ebbtide
