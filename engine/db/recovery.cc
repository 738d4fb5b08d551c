// Open: lock, manifest, tables, log (db/log_replay.h); and close.
#include <algorithm>

#include "base/invariant.h"
#include "base/random.h"
#include "db/db_impl.h"
#include "io/file_names.h"

namespace ebbtide {
namespace {

/// Reserved for a full disk, in memtables. Two may wait to be flushed when another program fills the disk from one moment to the next. A
/// table may be twice as large as its memtable: of values of a little over half a page, tiles have one in each page.
constexpr std::uint64_t kReservedMemtables = 4;

/// Small segments, as tests have them, get small pieces of batches, and a writer of pieces is not far ahead of the device there.
constexpr std::uint64_t kPiecesPerSegment = 512, kLeastPieceBytes = 128, kAheadPerSegment = 16;

const char* mode_name(StampMode mode) {
  switch (mode) {
    case StampMode::kWriteTime:
      return "write_time";
    case StampMode::kExpireTime:
      return "expire_time";
    case StampMode::kExplicit:
      return "explicit";
  }
  return "unknown";
}

/// "2024-05-01 12:00:00 UTC". Days to a date as in the proleptic Gregorian calendar, years counted from March.
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

/// The most common number of pages per delete tile, by entries.
std::uint32_t usual_tile_size(const TablesView& tables) {
  std::map<std::uint32_t, std::uint64_t> entries;
  for (const RunView& run : tables.runs) {
    for (const OpenTablePtr& table : run.tables()) entries[table->reader->pages_per_tile()] += table->meta->stats.entries;
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
      trees_(trees_env(), tree_settings(settings)),
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
      time_(clock_),
      budget_({.account = memory_,
               .clock = &clock_,
               .block_cache = settings.block_cache,
               .set_cache_capacity = [this](std::uint64_t bytes) { cache_->set_capacity(bytes); },
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
             .reserve_bytes = kReservedMemtables * settings.memtable_size}),
      load_meter_(load_meter_env()),
      relief_(relief_env()),
      deadline_keeper_(deadline_keeper_env()),
      maintenance_(maintenance_env()) {
  scrubber_.set_interval(settings.scrub_interval);
  pool_ = components.background;
}

DbImpl::~DbImpl() {
  (void)close();
  alive_->store(false);
  MutexLock lock(trees_.commit_mutex);
  published_.unmap_all();
  trees_.clear();
  epoch_.collect();  // retired views hold tables, whose end needs the cache
}

Status DbImpl::open() {
  TRY(check_settings(settings_));
  empty_memtable_bytes_ = MemTable(settings_.memtable_size).memory_bytes();
  TRY(open_manifest());
  TRY(disk_.open());
  TRY(start_time());
  cache_ = std::make_unique<BlockCache>(settings_.memory_budget / 2, epoch_);
  if (threads_) {
    own_pool_ = std::make_unique<ThreadPool>(settings_.background_threads, "ebbtide-bg", 5);
    flush_pool_ = std::make_unique<ThreadPool>(1, "ebbtide-flush", 5);
    pool_ = own_pool_.get();
  }
  const auto note_charged = [this] { budget_.note_charged(); };
  reads_.values = std::make_shared<LargeValues>(memory_, note_charged);
  fetcher_ = std::make_unique<PageFetcher>(threads_ ? settings_.fetch_threads : 0, memory_, note_charged, *reads_.values);

  SeqNum last_seq = versions_->last_seq();
  LogReplay::Replayed log;
  {
    MutexLock lock(trees_.commit_mutex);
    TRY(open_trees(&last_seq));
    TRY_ASSIGN(replayed, replay_log());
    log = std::move(replayed);
    last_seq = std::max(last_seq, log.last_seq);
    pipeline_.start(last_seq);
    compare_stamp_modes();
    trees_.settle();
  }
  published_.start(last_seq);
  TRY(remove_leftovers());

  // Written before the first write: a mark, since engine time would stand still without one until the first tick; and the first
  // segment of the log, so that the loss of the whole log is noticed.
  VersionEdit edit;
  edit.time_mark = std::max(versions_->time_mark(), time_.tick());
  if (!log.segments.empty()) edit.oldest_log = log.segments.front().file;
  opened_at_ = time_.stamped();  // before the first tick: what is late by now was due while no server ran
  TRY(start_log(std::move(log.segments), last_seq));
  {
    MutexLock manifest(manifest_.mutex);  // the log thread may tick already
    if (!edit.oldest_log) edit.oldest_log = log_->oldest_needed(last_seq + 1);
    TRY(manifest_.commit(std::move(edit)));
    time_.set_mark(versions_->time_mark());
  }
  // Makes the removal of older files and of the old manifest durable, before a client can see it.
  TRY(fs_.sync_dir(settings_.dir));

  writes_.measure();
  {
    MutexLock lock(trees_.commit_mutex);
    if (trees_.mapping_changed()) manifest_.schedule_mapping();
  }
  if (log.skipped_in != kNoFile) {  // what it had is unknown: it is removed as if a deadline required that
    log_retirer_.retire_until(log.skipped_in);
    retention_.request_clean_up(false);
  }
  deadline_keeper_.tick(tree_loads());  // overdue deletes first
  for (const TreePtr& tree : trees_.live_trees()) {
    flush_scheduler_.schedule(tree);
    hole_puncher_.note_dead(tree->id);  // dropped pages that were not punched yet
    hole_puncher_.schedule(tree->id);
    scheduler_.schedule(tree);
  }
  return Status::ok();
}

// The directory, its lock, and what the manifest says; a new manifest where there is nothing yet.
Status DbImpl::open_manifest() {
  TRY(fs_.create_dir(settings_.dir));
  TRY(fs_.sync_dir(parent_path(settings_.dir)));
  TRY_ASSIGN(lock_file, fs_.lock(join_path(settings_.dir, std::string(kLockFileName))));
  file_lock_ = std::move(lock_file);

  TRY_ASSIGN(names, fs_.list(settings_.dir));
  auto versions = VersionSet::open(fs_, settings_.dir);
  if (versions.status().is_not_found()) {
    for (const std::string& name : names) {
      FileKind kind{};
      FileNum file = kNoFile;
      // None of these is made before CURRENT is durable; a power loss can leave any one of them alone.
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
  // Files that earlier runs left may have any number. None of these numbers may be assigned again.
  for (const std::string& name : names) {
    FileKind kind{};
    FileNum file = kNoFile;
    if (parse_file_name(name, &kind, &file) && file != kNoFile) versions_->mark_file_used(file);
  }
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
  time_.start(mark);
  return Status::ok();
}

// Opens the manifest's trees with their tables, and maps the databases to them.
Status DbImpl::open_trees(SeqNum* last_seq) {
  trees_.start_mapping(versions_->databases_seq());
  VersionEdit damaged;
  TRY_ASSIGN(opened, quarantine_.open_tables(versions_->trees(), &damaged));
  if (!damaged.trees.empty()) TRY(versions_->commit(std::move(damaged)));
  for (const auto& [id, version] : versions_->trees()) {
    DatabaseId database = 0;
    for (const auto& [d, t] : versions_->databases()) {
      if (t == id) database = d;
    }
    if (database >= settings_.databases) {
      return Status::invalid_argument("server.databases is " + std::to_string(settings_.databases) + ", but database " +
                                      std::to_string(database) + " has data");
    }
    TreePtr tree = trees_.make(id, database, version->stamp);
    tree->recorded->store(!version->records->empty(), std::memory_order_relaxed);
    MutexLock state(trees_.state_mutex);
    auto view = std::make_shared<TreeView>(*tree->view_owner);
    const FilterNeeds needs = filter_needs(*tree);
    TRY_ASSIGN(tables, installer_.make_view(version, nullptr, opened, 0,
                                            [&](const TablesView& fresh) { (void)fit_filters(fresh, needs, filter_fit_env()); }));
    for (const Run& run : version->runs) {
      for (const FileMetaPtr& file : run.files) *last_seq = std::max(*last_seq, file->stats.max_seq);
    }
    tree->tile_size = TileSize(usual_tile_size(*tables));
    view->tables = std::move(tables);
    trees_.publish(*tree, std::move(view));
  }
  for (const auto& [database, id] : versions_->databases())
    map_database(database, trees_.live_tree(id));  // the manifest was checked
  return Status::ok();
}

// The replay's mutex is the registry's, which the analysis of locks cannot know.
Result<LogReplay::Replayed> DbImpl::replay_log() NO_THREAD_SAFETY_ANALYSIS { return LogReplay(log_replay_env()).run(); }

Status DbImpl::flush_replayed(const std::vector<TreePtr>& trees) {
  MutexLock flushing(flusher_.mutex);
  BuiltFlush built;
  Status status;
  for (const TreePtr& tree : trees) {
    status = flush_job_.build(tree, kAllMemTables, time_.stamped(), &built);
    if (!status.is_ok()) break;
  }
  if (!status.is_ok()) {
    for (const BuiltFlush::Of& of : built.of) outputs_.unlink(of.tree, of.outputs);
    for (const TreePtr& tree : trees) outputs_.note_failure(tree);
    return status;
  }
  MutexLock manifest(manifest_.mutex);
  built.edit.last_seq = built.relies_on;
  status = versions_->commit(std::move(built.edit));  // settle() takes over the manifest's deadlines later
  if (!status.is_ok()) {
    for (const BuiltFlush::Of& of : built.of) outputs_.disown(of.tree, of.outputs);
    return status.with_context("manifest");
  }
  for (const BuiltFlush::Of& of : built.of) {
    FilterNeeds needs;
    std::shared_ptr<const TablesView> before;
    {
      MutexLock state(trees_.state_mutex);
      before = of.tree->view_owner->tables;
      needs = filter_needs(*of.tree);
    }
    auto tables = installer_.make_view(versions_->tree(of.tree->id), before.get(), built.opened, 0,
                                       [&](const TablesView& tables) { (void)fit_filters(tables, needs, filter_fit_env()); });
    ASSERT_MSG(tables.is_ok(), "a table that was opened for the edit");
    MutexLock state(trees_.state_mutex);
    auto view = std::make_shared<TreeView>(*of.tree->view_owner);
    view->tables = std::move(tables).value();
    view->memtables.resize(view->memtables.size() - of.memtables);
    of.tree->frozen.erase(of.tree->frozen.begin(), of.tree->frozen.begin() + static_cast<std::ptrdiff_t>(of.memtables));
    trees_.publish(*of.tree, std::move(view));
  }
  return Status::ok();
}

// A tree's mode is fixed when it is made: the stamps of its values could not be computed again.
void DbImpl::compare_stamp_modes() {
  for (DatabaseId d = 0; d < trees_.databases(); ++d) {
    const TreePtr& tree = trees_.mapped(d);
    if (tree == nullptr || tree->stamp == trees_.settings_of(d).stamp) continue;
    say(Severity::kWarning, "database " + std::to_string(d) + " was made with the stamp mode " + mode_name(tree->stamp) +
                                " and keeps it; the configured mode " + mode_name(trees_.settings_of(d).stamp) +
                                " takes effect when the database is flushed");
  }
}

// Called only while there are no readers.
void DbImpl::map_database(DatabaseId database, TreePtr tree) {
  published_.map(database, tree.get());
  trees_.map(database, std::move(tree));
}

Status DbImpl::start_log(std::vector<LogSegment> segments, SeqNum last_seq) {
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
  return log_->start(std::move(segments), last_seq);
}

// Removes files that a crash left unfinished, and tables that no version names.
Status DbImpl::remove_leftovers() {
  std::set<FileNum> live;
  for (const auto& [id, version] : versions_->trees()) {
    for (const Run& run : version->runs) {
      for (const FileMetaPtr& file : run.files) {
        live.insert(file->data_file);
        live.insert(file->metadata_file);
      }
    }
  }
  TRY_ASSIGN(names, fs_.list(settings_.dir));
  for (const std::string& name : names) {
    FileKind kind{};
    FileNum file = kNoFile;
    if (!parse_file_name(name, &kind, &file)) continue;
    const bool table = kind == FileKind::kData || kind == FileKind::kMetadata;
    const bool old_manifest = kind == FileKind::kManifest && file != versions_->manifest_file();
    if ((table && live.count(file) == 0) || kind == FileKind::kTemporary || old_manifest) {
      TRY(fs_.unlink(join_path(settings_.dir, name)));
    }
  }
  return Status::ok();
}

Status DbImpl::close() {
  if (closing_.exchange(true)) return Status::ok();
  Status status;
  progress_.notify();
  if (log_ != nullptr) {
    // Running jobs stop when they see closing_ or dropped. Queued ones never start.
    for (const TreePtr& tree : trees_.live_trees()) {
      tree->dropped = true;
      tree->jobs.abort_all();
    }
    status = log_->close();
  }
  flush_pool_.reset();
  own_pool_.reset();
  fetcher_.reset();
  if (versions_ != nullptr && log_ != nullptr && status.is_ok() && health_.is_ok()) {
    // A clean end: the manifest states up to which seq the log must be complete. It has the present time as its mark, not one
    // ahead of it.
    MutexLock manifest(manifest_.mutex);
    VersionEdit edit;
    edit.last_seq = published_.visible_seq();
    manifest_.note_log_needs({}, {}, &edit);
    edit.oldest_log.reset();  // nothing is unlinked any more
    edit.time_mark = time_.now();
    trees_.add_deadlines(*versions_, &edit);
    status = versions_->commit(std::move(edit));
  }
  if (log_ != nullptr) obsolete_files_.remove_queued();
  return status;
}

}  // namespace ebbtide
