// Opens the database: lock, manifest, tables, log (db/log_replay.h). Closes it.
#include <algorithm>
#include <unordered_set>

#include <engine/stamp_mode.h>
#include "base/boot_id.h"
#include "base/invariant.h"
#include "base/number_name.h"
#include "base/random.h"
#include "db/db_impl.h"
#include "io/file_names.h"

namespace ebbtide {
namespace {

/// The size of the reserve for a full disk, in full memtables. Two memtables may wait to be flushed when another program suddenly
/// fills the disk. Their tables may be twice as large as the memtables: if values are a little over half a page, each page has
/// only one value.
constexpr std::uint64_t kReservedMemtables = 4;
// There are at least two flush threads, so that a flush for a deadline does not wait for the long flush of another database.
constexpr std::uint32_t kMinFlushThreads = 2;

/// Limits if segments are small, as in tests. A piece of a staged batch has at most 1 / kPiecesPerSegment of a segment, or
/// kLeastPieceBytes if that is more. The writer of pieces is at most 1 / kAheadPerSegment of a segment ahead of the device.
constexpr std::uint64_t kPiecesPerSegment = 512, kLeastPieceBytes = 128, kAheadPerSegment = 16;

/// Threads that read tables at open, in addition to the calling thread. They mostly wait for the device.
constexpr unsigned kOpenThreads = 7;

/// Returns a time as "2024-05-01 12:00:00 UTC". Computes the date in the proleptic Gregorian calendar, with years that begin in
/// March.
std::string utc(Millis time) {
  const std::uint64_t seconds = time / 1000, days = seconds / 86400 + 719468;
  const std::uint64_t era = days / 146097, day_of_era = days % 146097;
  const std::uint64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const std::uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::uint64_t m = (5 * day_of_year + 2) / 153, day = day_of_year - (153 * m + 2) / 5 + 1, month = m < 10 ? m + 3 : m - 9;
  const std::uint64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
  const auto two = [](std::uint64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  return std::to_string(year) + "-" + two(month) + "-" + two(day) + " " + two(seconds / 3600 % 24) + ":" +
         two(seconds / 60 % 60) + ":" + two(seconds % 60) + " UTC";
}

std::vector<TreeSettings> tree_settings(const Settings& settings) {
  std::vector<TreeSettings> out;
  for (DatabaseId d = 0; d < settings.databases; ++d) out.push_back(settings.tree_for(d));
  return out;
}

TreeRegistry::IndexSettings index_settings(const Settings& settings) {
  return {settings.overrides.lower_bound(kMaxDatabases), settings.overrides.end()};
}

/// Returns true if the disk refused a write, so that reads can be served nevertheless.
bool refused_by_disk(const Status& status) { return status.code() == Code::kNoSpace || status.code() == Code::kIoError; }

/// Returns the most common number of pages per delete tile, by entries, of the tables that were read.
std::uint32_t usual_tile_size(const TablesView& tables) {
  std::map<std::uint32_t, std::uint64_t> entries;
  for (const RunView& run : tables.runs) {
    for (const OpenTablePtr& table : run.tables()) {
      if (const std::uint32_t h = table->reader->pages_per_tile(); h != 0) entries[h] += table->meta->stats.entries;
    }
  }
  const auto most = std::max_element(entries.begin(), entries.end(), [](auto& a, auto& b) { return a.second < b.second; });
  return most == entries.end() ? 1 : most->first;
}

}  // namespace

Status check_settings(const Settings& settings) {
  TRY(validate(settings));
  TRY(make_policy(settings.tree.policy).status());
  for (const auto& [database, tree] : settings.overrides) {
    TRY(make_policy(tree.policy).status().with_context("databases." + std::to_string(database)));
  }
  return Status::ok();
}

DbImpl::DbImpl(const Settings& settings, const Components& components)
    : settings_(settings),
      removals_(components.fs != nullptr ? *components.fs : *posix_file_system(), settings.dir),
      fs_(removals_),
      open_files_(std::make_shared<OpenFiles>(fs_, settings.max_open_files)),
      clock_(components.clock != nullptr ? *components.clock : *system_clock()),
      events_(components.events),
      threads_(components.background == nullptr),
      trees_(trees_env(), tree_settings(settings), index_settings(settings)),
      placer_(placer_env()),
      manifest_(manifest_env()),
      obsolete_files_(obsolete_files_env()),
      ledger_(removals_, settings.dir),
      surveyor_(surveyor_env()),
      purges_({.clock = &clock_,
               .survey = [this] { return surveyor_.draw(); },
               .tree_limit = [this] { return versions_->tree_limit(); },
               .opened_at = [this] { return opened_at_; }}),
      log_retirer_(log_retirer_env()),
      retention_(retention_env()),
      deadlines_([this](const std::string& text) { say(Severity::kWarning, text); }),
      health_(health_env()),
      quarantine_(quarantine_env()),
      hole_puncher_(hole_puncher_env()),
      scrubber_(scrubber_env(), Random(components.seed != 0 ? components.seed : clock_.wall_ms()).next()),
      planner_memory_(clock_),
      installer_(installer_env()),
      job_env_(job_env()),
      scheduler_(scheduler_env()),
      flush_job_(flush_job_env()),
      outputs_(outputs_env()),
      flusher_(flusher_env()),
      flush_scheduler_(flush_scheduler_env()),
      time_(clock_, components.clock != nullptr ? 0 : system_boot_id()),
      budget_({.account = memory_,
               .clock = &clock_,
               .block_cache = settings.block_cache,
               .set_cache_capacity = [this](std::uint64_t bytes) { cache_->set_capacity(bytes); },
               .set_index_capacity = [this](std::uint64_t bytes) { indexes_.set_capacity(bytes); },
               .index_bytes = [this] { return indexes_.counts().bytes; },
               .flushes_fail = [this] { return health_.read_only(); },
               .cache_bytes = [this] { return cache_->usage(); }},
              settings.memory_budget),
      writes_({.clock = &clock_,
               .threads = threads_,
               .load = [this] { return load_meter_.measure(); },
               .divide = [this](const MemoryUse& use) { budget_.divide(use); },
               .write_status = [this] { return health_.write_status(); },
               .closing = [this] { return closing_.load(); },
               .pending_drops = [this] { return trees_.pending_drops(); },
               .run_task = [this] { return pool_->run_one(); }}),
      pipeline_(commit_env(), trees_.commit_mutex, published_),
      commit_counter_(commit_counter_env()),
      staged_writer_(staged_writer_env()),
      committer_(commit_env(), {.pipeline = pipeline_,
                                .writes = writes_,
                                .staged = staged_writer_,
                                .counter = commit_counter_,
                                .memory = *memory_,
                                .databases = settings.databases}),
      progress_(progress_env()),
      requested_work_(requested_work_env()),
      disk_({.fs = &fs_,
             .dir = settings.dir,
             .max_disk_bytes = settings.max_disk_bytes,
             .reserve_bytes = kReservedMemtables * trees_.largest_memtable_size()}),
      load_meter_(load_meter_env()),
      relief_(relief_env()),
      deadline_keeper_(deadline_keeper_env()),
      reaper_(reaper_env()),
      file_watch_(file_watch_env()),
      workload_(workload_env()),
      maintenance_(maintenance_env()) {
  scrubber_.set_interval(settings.scrub_interval);
  file_watch_.set_scrub_interval(settings.scrub_interval);
  pool_ = components.background;
}

DbImpl::~DbImpl() {
  (void)close();
  alive_->store(false);
  MutexLock lock(trees_.commit_mutex);
  published_.unmap_all();
  trees_.clear();
  epoch_.collect();  // destroys the tables of retired views while the cache, which they need, still exists
}

Status DbImpl::open() {
  TRY(check_settings(settings_));
  empty_memtable_bytes_ = MemTable(settings_.tree.memtable_size).memory_bytes();
  TRY(open_manifest());
  TRY(disk_.open());
  TRY(start_time());
  workload_.open();
  cache_ = std::make_unique<BlockCache>(settings_.memory_budget / 2, epoch_);
  if (threads_) start_threads();
  const auto note_charged = [this] { budget_.note_charged(); };
  reads_.values = std::make_shared<LargeValues>(memory_, note_charged);
  fetcher_ = std::make_unique<PageFetcher>(threads_ ? settings_.fetch_threads : 0, memory_, note_charged, *reads_.values);

  Recovered found;
  TRY(recover(&found));
  published_.start(found.last_seq);
  for (const std::string& name : found.unused) obsolete_files_.remove(name);
  TRY(quarantine_damaged(found.damaged));
  const FileNum skipped_in = found.log.skipped_in;
  TRY(begin_writing(std::move(found.log), found.last_seq));
  // Makes the removal of older files and of the old manifest durable, before a client can observe the new state.
  TRY(fs_.sync_dir(settings_.dir));

  writes_.measure();
  {
    MutexLock lock(trees_.commit_mutex);
    if (trees_.mapping_changed()) manifest_.schedule_mapping();
  }
  // The contents of the skipped part are unknown, so the part is removed as if a deadline required the removal.
  if (skipped_in != kNoFile) {
    log_retirer_.retire_until(skipped_in);
    retention_.request_clean_up(false);
  }
  schedule_pending_work();
  return Status::ok();
}

void DbImpl::start_threads() {
  own_pool_ = std::make_unique<ThreadPool>(settings_.background_threads, "ebbtide-bg", 5);
  flush_pool_ = std::make_unique<ThreadPool>(std::max(kMinFlushThreads, settings_.background_threads / 2), "ebbtide-flush", 5);
  upkeep_pool_ = std::make_unique<ThreadPool>(1, "ebbtide-upkeep", 5);
  reaper_pool_ = std::make_unique<ThreadPool>(1, "ebbtide-reaper", 5);
  pool_ = own_pool_.get();
}

// Opens the trees of the manifest, and applies the log to them.
Status DbImpl::recover(Recovered* found) {
  found->last_seq = versions_->last_seq();
  MutexLock lock(trees_.commit_mutex);
  TRY_ASSIGN(names, fs_.list(settings_.dir));
  TRY(open_trees(names, &found->last_seq, &found->damaged));
  found->unused = leftovers(names);
  report_foreign_files(names);
  auto replayed = replay_log();
  // A manifest that was truncated in the middle of a record looks like one that a crash left.
  if (const std::string& torn = versions_->torn_tail(); !replayed.is_ok() && !torn.empty()) {
    return replayed.status().with_context(manifest_file_name(versions_->manifest_file()) +
                                          " ends in an incomplete record, after a crash or a truncation (" + torn + ")");
  }
  if (!replayed.is_ok()) return replayed.status();
  found->log = std::move(replayed).value();
  found->unused.insert(found->unused.end(), found->log.unneeded.begin(), found->log.unneeded.end());
  found->last_seq = std::max(found->last_seq, found->log.last_seq);
  pipeline_.start(found->last_seq);
  compare_stamp_modes();
  trees_.settle();
  return Status::ok();
}

// Begins the log. Before the first write, commits a mark, without which engine time could not advance until the first tick. The
// same edit has the first and the last segment of the log, so that the loss of either is noticed.
Status DbImpl::begin_writing(LogReplay::Replayed log, SeqNum last_seq) {
  VersionEdit edit;
  edit.time_mark = std::max(versions_->time_mark(), time_.tick());
  edit.boot_mark = time_.boot_mark(*edit.time_mark);
  if (!log.segments.empty()) edit.oldest_log = log.segments.front().file;
  opened_at_ = time_.stamped();  // read before the first tick: a delete that is late then was due while no server ran
  Status written = start_log(std::move(log.segments), last_seq, log.uncut);
  if (written.is_ok()) {
    MutexLock manifest(manifest_.mutex);  // the log thread may already tick
    if (!edit.oldest_log) edit.oldest_log = log_->oldest_needed(last_seq + 1);
    edit.newest_log = log_->newest_segment();
    edit.last_seq = last_seq;
    written = manifest_.commit(std::move(edit));
    if (written.is_ok()) time_.set_mark(versions_->time_mark());
  }
  return written.is_ok() ? written : serve_reads_only(written);
}

void DbImpl::schedule_pending_work() {
  deadline_keeper_.tick(tree_loads());  // merges for overdue deletes come first
  for (const TreePtr& tree : trees_.live_trees()) {
    flush_scheduler_.schedule(tree);
    hole_puncher_.note_dead(tree->id);  // dropped pages that are not punched yet
    hole_puncher_.schedule(tree->id);
    scheduler_.schedule(tree);
  }
}

// Creates and locks the directory, and reads the manifest; creates a manifest if there is no database yet.
Status DbImpl::open_manifest() {
  TRY(fs_.create_dir(settings_.dir));
  // The parent is synced only for a new database. For an existing one this was done when it was made, and the user may lack the
  // right to read the parent.
  if (!fs_.exists(join_path(settings_.dir, std::string(kCurrentFileName)))) TRY(fs_.sync_dir(parent_path(settings_.dir)));
  TRY_ASSIGN(lock_file, fs_.lock(join_path(settings_.dir, std::string(kLockFileName))));
  file_lock_ = std::move(lock_file);

  auto versions = VersionSet::open(fs_, settings_.dir);
  if (versions.status().is_not_found()) {
    TRY_ASSIGN(names, fs_.list(settings_.dir));
    for (const std::string& name : names) {
      FileKind kind{};
      FileNum file = kNoFile;
      // Tables and segments are made only after CURRENT is durable. So without CURRENT they are the rest of a damaged database,
      // not of an interrupted creation.
      if (parse_file_name(name, &kind, &file) &&
          (kind == FileKind::kData || kind == FileKind::kMetadata || kind == FileKind::kLog)) {
        return Status::corruption(settings_.dir + ": has " + name +
                                  " but no CURRENT: the manifest is lost, or this is a checkpoint that was not finished");
      }
    }
    versions = VersionSet::create(fs_, settings_.dir);
  }
  if (!versions.is_ok()) return versions.status();
  versions_ = std::move(versions).value();
  return Status::ok();
}

Status DbImpl::start_time() {
  const Millis mark = versions_->time_mark();
  if (mark != 0 && clock_.wall_ms() > mark + EngineTime::kOpenRefused && !settings_.accept_clock) {
    return Status::invalid_argument(
        "the wall clock (" + utc(clock_.wall_ms()) + ") is more than 30 days past the time at which " + settings_.dir +
        " was last used (" + utc(mark) +
        "): every key with an expiry would be removed. If the clock is right, start with --accept-clock");
  }
  time_.start(mark, versions_->boot_mark());
  return Status::ok();
}

// Commits the edit `damaged`. Called only once the log is known to be complete. If an earlier step of the start fails, the next
// attempt may need the unchanged manifest. If the disk refuses the edit, only reads are served, and the quarantine is in memory
// only.
Status DbImpl::quarantine_damaged(const VersionEdit& damaged) {
  if (damaged.trees.empty()) return Status::ok();
  const Status status = manifest_.commit_change({.make = [&](const TableChange::Versions&) { return damaged; }});
  return refused_by_disk(status) ? Status::ok() : status;
}

// Opens the manifest's trees with their tables, and maps the databases to the trees. Adds damaged tables to the edit `damaged`.
Status DbImpl::open_trees(const std::vector<std::string>& names, SeqNum* last_seq, VersionEdit* damaged) {
  trees_.start_mapping(versions_->databases_seq());
  std::unique_ptr<ThreadPool> pool;
  if (threads_) pool = std::make_unique<ThreadPool>(kOpenThreads, "ebbtide-open", 0);
  TRY_ASSIGN(opened, quarantine_.open_tables(versions_->trees(), names, damaged, pool.get()));
  for (const auto& [id, version] : versions_->trees()) {
    DatabaseId database = 0;
    for (const auto& [d, t] : versions_->databases()) {
      if (t == id) database = d;
    }
    if (!trees_.has_number(database)) {
      return Status::invalid_argument("server.databases is " + std::to_string(settings_.databases) + ", but " +
                                      number_name(database) + " has data");
    }
    TreePtr tree = trees_.make(id, database, version->stamp);
    tree->recorded->store(!version->records->empty(), std::memory_order_relaxed);
    MutexLock state(trees_.state_mutex);
    auto view = std::make_shared<TreeView>(*tree->view_owner);
    const FilterNeeds needs = filter_needs(*tree);
    TRY_ASSIGN(tables, installer_.make_view(version, nullptr, opened, 0,
                                            [&](TablesView& fresh) { (void)fit_filters(fresh, needs, filter_fit_env()); }));
    for (const Run& run : version->runs) {
      for (const FileMetaPtr& file : run.files) *last_seq = std::max(*last_seq, file->stats.max_seq);
    }
    tree->tile_size = TileSize(usual_tile_size(*tables));
    view->tables = std::move(tables);
    trees_.publish(*tree, std::move(view));
  }
  for (const auto& [database, id] : versions_->databases())
    map_database(database, trees_.live_tree(id));  // reading the manifest has checked that the tree exists
  return Status::ok();
}

// The replay's mutex is the registry's mutex, which the thread-safety analysis cannot know.
Result<LogReplay::Replayed> DbImpl::replay_log() NO_THREAD_SAFETY_ANALYSIS { return LogReplay(log_replay_env()).run(); }

// Warns if a tree's stamp mode is not the configured one. The mode is fixed when the tree is made, since the stamps of its values
// could not be computed again.
void DbImpl::compare_stamp_modes() {
  for (DatabaseId d = 0; d < trees_.databases(); ++d) {
    const TreePtr& tree = trees_.mapped(d);
    if (tree == nullptr || tree->stamp == trees_.settings_of(d).stamp) continue;
    say(Severity::kWarning, "database " + std::to_string(d) + " was made with the stamp mode " + stamp_mode_name(tree->stamp) +
                                " and keeps it; the configured mode " + stamp_mode_name(trees_.settings_of(d).stamp) +
                                " takes effect when the database is flushed");
  }
}

// Maps the database for writers and readers in two steps, which is safe only while there are no readers.
void DbImpl::map_database(DatabaseId database, TreePtr tree) {
  published_.map(database, tree.get());
  trees_.map(database, std::move(tree));
}

Status DbImpl::start_log(std::vector<LogSegment> segments, SeqNum last_seq, const Status& uncut) {
  GroupCommitOptions log;
  log.fs = &fs_;
  log.dir = settings_.dir;
  log.clock = &clock_;
  log.fsync = settings_.fsync;
  log.segment_bytes = settings_.wal_segment_size;
  log.piece_bytes = std::clamp<std::uint64_t>(settings_.wal_segment_size / kPiecesPerSegment, kLeastPieceBytes, log.piece_bytes);
  log.most_ahead_bytes = std::min<std::uint64_t>(settings_.wal_segment_size / kAheadPerSegment, log.most_ahead_bytes);
  log.new_file = [this] { return versions_->new_file(); };
  log.own_thread = threads_;
  log.on_tick = [this] { maintenance_.tick(); };
  log_ = std::make_unique<GroupCommit>(std::move(log));
  return log_->start(std::move(segments), last_seq, uncut);
}

// Makes the database read-only if the disk refused a write of the start; all data can be read. Once the disk accepts writes, the
// database recovers: the log continues in a new segment, and the next mark of engine time names that segment. If the manifest
// names no log segment yet, returns the error: if reads were served, a later start could lose the log without notice.
Status DbImpl::serve_reads_only(const Status& refused) {
  if (!refused_by_disk(refused) || versions_->oldest_log() == kNoFile) return refused;
  health_.failed(refused, "the disk refused a write during the start; only reads are served until it accepts writes");
  return Status::ok();
}

// Logs that there are files of other programs. They are left alone, so deletes do not purge data in them, such as a copy of a
// table.
void DbImpl::report_foreign_files(const std::vector<std::string>& names) {
  // The file of the workload, a file that the server makes, and a directory that some file systems have at their root.
  constexpr Bytes kKnown[] = {kWorkloadFileName, "DATABASE_ID", "lost+found"};
  std::vector<std::string> foreign;
  for (const std::string& name : names) {
    FileKind kind{};
    FileNum file = kNoFile;
    if (std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown) || parse_file_name(name, &kind, &file))
      continue;
    foreign.push_back(name);
  }
  if (foreign.empty()) return;
  say(Severity::kInfo, settings_.dir + ": files that the database did not make are ignored, such as " +
                           *std::min_element(foreign.begin(), foreign.end()) + " (" + std::to_string(foreign.size()) +
                           " in all); deletes do not purge them");
}

// Returns the files to remove: temporary files, old manifests, and files of tables that no version names. If a table of a version
// is missing, files of tables are kept for salvage. The manifest may be older than the tables, and one of these files may have
// replaced the missing table.
std::vector<std::string> DbImpl::leftovers(const std::vector<std::string>& names) {
  std::unordered_set<FileNum> missing;
  for (const auto& [id, version] : versions_->trees()) {
    for (const Run& run : version->runs) {
      for (const FileMetaPtr& file : run.files) missing.insert({file->data_file, file->metadata_file});
    }
  }
  std::vector<std::string> found, tables;
  for (const std::string& name : names) {
    FileKind kind{};
    FileNum file = kNoFile;
    if (!parse_file_name(name, &kind, &file)) continue;
    const bool table = kind == FileKind::kData || kind == FileKind::kMetadata;
    const bool old_manifest = kind == FileKind::kManifest && file != versions_->manifest_file();
    if (table && missing.erase(file) == 0) tables.push_back(name);
    if (kind == FileKind::kTemporary || old_manifest) found.push_back(name);
  }
  if (missing.empty()) found.insert(found.end(), tables.begin(), tables.end());
  if (!missing.empty() && !tables.empty()) {
    say(Severity::kWarning, settings_.dir + ": tables are missing, so " + std::to_string(tables.size()) +
                                " files of tables that the manifest does not name are kept, such as " + tables.front() +
                                ": the manifest may be older than these files");
  }
  return found;
}

// Checks for lost files once more before the database closes: while it is open, it can still write their contents again.
void DbImpl::heal_lost_files() {
  if (versions_ == nullptr || log_ == nullptr || !health_.is_ok() || log_->failed() || file_watch_.check_now()) return;
  if (log_->failed()) health_.failed(log_->status(), "log");
  health_.heal_now();
}

Status DbImpl::close() {
  if (!closing_) heal_lost_files();
  if (closing_.exchange(true)) return Status::ok();
  Status status;
  progress_.notify();
  if (reaper_pool_ != nullptr) reaper_pool_->stop();  // the reaper commits, so it ends before the log does
  if (log_ != nullptr) {
    // Running jobs stop when they see closing_ or dropped. Queued jobs never start.
    for (const TreePtr& tree : trees_.live_trees()) {
      tree->dropped = true;
      tree->jobs.abort_all();
    }
    status = log_->close();
  }
  // Tasks of one pool may submit tasks to another pool, so the pools are stopped but not destroyed.
  for (ThreadPool* pool : {flush_pool_.get(), upkeep_pool_.get(), own_pool_.get()}) {
    if (pool != nullptr) pool->stop();
  }
  fetcher_.reset();
  if (versions_ != nullptr && log_ != nullptr && status.is_ok() && health_.is_ok()) {
    // Writes the seq up to which the log must be complete at the next open. Sets the mark of engine time to the present engine
    // time: the mark has to be ahead of engine time only for a crash.
    MutexLock manifest(manifest_.mutex);
    VersionEdit edit;
    edit.last_seq = published_.visible_seq();
    manifest_.note_log_needs({}, {}, &edit);
    edit.oldest_log.reset();  // closing makes no more segments obsolete: the manifest keeps its oldest_log
    edit.time_mark = time_.now();
    edit.boot_mark = time_.boot_mark(*edit.time_mark);
    trees_.add_deadlines(*versions_, &edit);
    status = versions_->commit(std::move(edit));
  }
  if (log_ != nullptr && health_.is_ok()) workload_.close();
  if (log_ != nullptr) obsolete_files_.remove_queued();
  return status;
}

}  // namespace ebbtide
