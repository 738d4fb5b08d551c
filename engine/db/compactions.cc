// Plans become jobs, jobs become edits, edits become views.
//
// A job's inputs are marked busy from the moment its plan is chosen until its edit is installed or it failed; policies see the
// mark. A new view takes over the open tables that stay and brings the new ones; tables that went are marked obsolete, and the
// last view that holds one hands its files over for removal.
//
// A compaction that fails loses nothing and is tried again, ever more rarely: a full disk or a bad sector must not become a loop
// that reads and writes at full speed for nothing.
#include <algorithm>
#include <utility>

#include "base/invariant.h"
#include "base/oldest.h"
#include "compaction/table_files.h"
#include "db/db_impl.h"
#include "io/file_names.h"
#include "policy/around.h"
#include "tree/frozen.h"

namespace ebbtide {
namespace {
constexpr std::uint64_t kRemovalRetryNs = 10'000'000'000;

/// Of the runs that are there before the edit: how many files they have after it.
std::map<RunId, std::size_t> files_after(const Version& version, const TreeEdit& edit) {
  std::map<RunId, std::size_t> files;
  for (const Run& run : version.runs) files[run.id] = run.files.size();
  for (const auto& [run, file] : edit.added_files) {
    if (const auto at = files.find(run); at != files.end()) ++at->second;
  }
  for (const auto& [run, file] : edit.removed_files) {
    if (const auto at = files.find(run); at != files.end()) --at->second;
  }
  return files;
}

/// Whether every run that the edit brings files to, or puts a new run before, is there still. One that had no file in the job may
/// have been emptied and removed meanwhile.
bool has_targets(const Version& version, const TreeEdit& edit) {
  const auto is_there = [&](RunId id) {
    const auto is_it = [id](const auto& run) { return run.id == id; };
    return std::any_of(version.runs.begin(), version.runs.end(), is_it) ||
           std::any_of(edit.added_runs.begin(), edit.added_runs.end(), is_it);
  };
  return std::all_of(edit.added_files.begin(), edit.added_files.end(), [&](const auto& file) { return is_there(file.first); }) &&
         std::all_of(edit.added_runs.begin(), edit.added_runs.end(),
                     [&](const auto& run) { return run.newest || run.before == 0 || is_there(run.before); });
}

/// Whether the edit would bring back a file that was found damaged since the plan was made: moved, or with other metadata. What a
/// merge has read whole it may replace.
bool keeps_quarantined(const Version& version, const TreeEdit& edit) {
  const auto is_quarantined = [&](FileNum file) {
    return std::any_of(version.runs.begin(), version.runs.end(), [&](const Run& run) {
      return std::any_of(run.files.begin(), run.files.end(),
                         [&](const FileMetaPtr& f) { return f->data_file == file && f->quarantined(); });
    });
  };
  return std::any_of(edit.added_files.begin(), edit.added_files.end(),
                     [&](const auto& added) { return is_quarantined(added.second.data_file); });
}

// Which runs go is settled when the edit is committed: other jobs may have brought files to a run since the plan was made. Runs
// that slices emptied stay until the next merge, since a slice itself must change neither runs nor their order; but the oldest
// run of a level below 0 stays for good (tree/apply.h).
void settle_runs(const Version& version, bool sweep, TreeEdit* edit) {
  const std::map<RunId, std::size_t> files = files_after(version, *edit);
  std::erase_if(edit->removed_runs, [&](RunId run) { return files.count(run) != 0 && files.at(run) != 0; });
  if (!sweep) return;
  for (std::size_t i = 0; i < version.runs.size(); ++i) {
    const Run& run = version.runs[i];
    const bool oldest_of_level = i + 1 == version.runs.size() || version.runs[i + 1].level != run.level;
    if (files.at(run.id) != 0 || !run.files.empty() || (run.level > 0 && oldest_of_level)) continue;
    if (std::count(edit->removed_runs.begin(), edit->removed_runs.end(), run.id) == 0) edit->removed_runs.push_back(run.id);
  }
}
}  // namespace

// A pool of the caller's may turn after the database is gone.
void DbImpl::submit(Priority priority, BackgroundPool::Task task) {
  BackgroundPool* pool = priority == Priority::kHigh && flush_pool_ != nullptr ? flush_pool_.get() : pool_;
  pool->submit(priority, [alive = alive_, task = std::move(task)] {
    if (*alive) task();
  });
}

void DbImpl::schedule_compactions(const TreePtr& tree) {
  while (std::optional<RunningJob> job = next_job(tree)) {
    submit(Priority::kLow, [this, tree, job = std::move(*job)] { run_job(tree, job); });
  }
}

bool DbImpl::may_compact(const Tree& tree) const {
  if (closing_ || tree.dropped || tree.view_owner == nullptr) return false;
  return background_error_.is_ok() && tree.jobs.running() < pool_->width();
}

PlanBase DbImpl::plan_base(Tree& tree) {
  return {tree.view_owner->tables, tree.policy, tree.settings, tree.deadlines, fruitless_files(tree)};
}

// The plan is made without a lock, of tables that stay as they are, and holds only if the tree still has them. What the deadlines
// ask for goes first; if a running job is in its way, which is then asked to stop, its files are kept from new ones.
std::optional<RunningJob> DbImpl::next_job(const TreePtr& tree) {
  for (;;) {
    PlanBase base;
    bool deadlines_rest = false, paused = compactions_paused_ > 0;  // what is urgent goes on
    {
      MutexLock lock(state_mutex_);
      if (!may_compact(*tree) || tree->view_owner->tables->runs.empty()) return std::nullopt;
      const std::uint64_t mono_ns = clock_.mono_ns();
      paused |= tree->merges.rests(mono_ns);
      deadlines_rest = tree->deadline_merges.rests(mono_ns);
      if (paused && deadlines_rest) return std::nullopt;
      base = plan_base(*tree);
    }
    const auto& tables = base.tables;
    const Millis now = time_.stamped();  // as the job will judge what has expired
    TreeShape shape = shape_for_deadlines(*tree, *tables->version, base.settings.file_size, base.deadlines, now);
    if (base.settings.file_choice == FileChoice::kMostTombstones) estimate_invalidated(*tables, &shape);
    Plan dropping;
    if (!tables->quarantined.empty()) {
      TreeShape whole = shape;
      tree->jobs.mark_running(&whole);
      leave_out_frozen(&shape);
      if (std::optional<RunningJob> job = paused ? std::nullopt : start_around(*tree, tables, plan_around(whole))) return job;
    }
    if (!paused) dropping = next_drop(*tree, *tables);
    if (!paused && dropping.empty()) dropping = next_page_drop(*tree, tables, base.settings.delete_deadline, now);
    if (!deadlines_rest && dropping.empty()) dropping = next_names(*tree, *tables, base.deadlines, now);
    Plan urgent;
    const bool look = !deadlines_rest && dropping.empty();
    if (look) urgent = next_urgent(*tree, base, shape, now);
    if (look && urgent.empty()) urgent = next_purge_rewrite(*tree, *tables, base.deadlines, true, now);
    std::string broken;
    for (const bool deadline : {true, false}) {
      if (paused && !deadline) break;
      Plan plan = !dropping.empty() ? dropping
                  : deadline        ? urgent
                                    : tree->jobs.next(*base.policy, {now, base.settings.file_choice}, shape, urgent, &broken);
      if (!deadline) note_bounds(*tree, *base.policy, broken);
      if (plan.empty() && !deadline) plan = next_purge_rewrite(*tree, *tables, base.deadlines, false, now);
      if (plan.empty()) continue;
      MutexLock lock(state_mutex_);
      if (!may_compact(*tree)) return std::nullopt;
      if (tree->view_owner->tables != tables) break;
      // Nothing if a running job is in its way; its end asks again.
      std::optional<RunningJob> job = tree->jobs.start(plan, *tables->version);
      if (job && plan.reason == Reason::kDeadline) {
        tree->budget.spend(job->bytes);
        disk_.claim(job->bytes);
      }
      if (job || !deadline || !dropping.empty()) return job;
    }
    MutexLock lock(state_mutex_);
    if (tree->view_owner == nullptr || tree->view_owner->tables == tables) return std::nullopt;
  }
}

std::optional<RunningJob> DbImpl::start_around(Tree& tree, const std::shared_ptr<const TablesView>& tables, const Plan& plan) {
  if (plan.empty()) return std::nullopt;
  MutexLock lock(state_mutex_);
  if (!may_compact(tree) || tree.view_owner->tables != tables) return std::nullopt;
  return tree.jobs.start(plan, *tables->version);
}

// Every change of a tree ends in the question what is next; where nothing is, the tree has to be what its policy promises. It
// loses nothing if it is not, so the engine goes on; once is told, since the question is asked again after each flush.
void DbImpl::note_bounds(Tree& tree, const Policy& policy, const std::string& broken) {
  {
    MutexLock lock(state_mutex_);
    if (tree.broken_bounds == broken) return;
    tree.broken_bounds = broken;
  }
  if (broken.empty()) return;
  bounds_broken_ += 1;
  say(Severity::kError, "a tree is out of the bounds of its merge policy, " + policy.name() + ": " + broken);
}

void DbImpl::run_job(const TreePtr& tree, const RunningJob& job) {
  running_ += 1;
  const Status status = closing_ || tree->dropped ? Status::aborted("") : execute_job(tree, job);
  running_ -= 1;
  finish_job(tree, job.id);
  const bool deadline = job.plan.reason == Reason::kDeadline;
  if (deadline) {
    disk_.release(job.bytes);
    note_refusal(status);
  }
  {
    MutexLock lock(state_mutex_);
    (deadline ? tree->deadline_merges : tree->merges).note(status, clock_.mono_ns());
    progress_.notify_all();
  }
  update_pressure();
  purge_obsolete();
  schedule_punching(tree);
  if (status.is_ok() || (status.code() == Code::kAborted && !closing_ && !tree->dropped)) {
    schedule_compactions(tree);  // a job that gave way made room for what it gave way to
  } else if (status.code() != Code::kAborted) {
    say(Severity::kError, std::string("compaction failed: ") + status.to_string());
    if (status.code() != Code::kCorruption) return;
    // Damage of an input is that file's matter alone; of anything else it is unknown what else is wrong.
    const Status taken = take_damage();
    if (taken.is_ok() && !takes_quarantined(*tree, job.plan)) background_failed(status, "compaction");
  }
}

// A flush that waited for it looks again.
void DbImpl::finish_job(const TreePtr& tree, JobId job) {
  tree->jobs.finish(job);
  bool waits = false;
  {
    MutexLock lock(state_mutex_);
    waits = std::exchange(tree->flush_waits, false);
  }
  if (waits) schedule_flush(tree);
}

Status DbImpl::execute_job(const TreePtr& tree, const RunningJob& job) {
  std::shared_ptr<const TablesView> tables;
  std::shared_ptr<const Policy> policy;
  CompactionContext context;
  FilterNeeds needs;
  std::shared_ptr<const int> working;
  {
    MutexLock lock(state_mutex_);
    if (tree->view_owner == nullptr) return Status::aborted("");
    working = tree->work;
    tables = tree->view_owner->tables;
    policy = tree->policy;
    context.settings = table_settings(*tree);
    needs = filter_needs(*tree);
  }
  context.filters = filters_after(*tables, job.plan, needs);
  context.now = time_.stamped();
  context.stamp = tree->stamp;
  context.visible_seq = visible_seq_.load(std::memory_order_acquire);
  std::map<FileNum, std::shared_ptr<TableReader>> opened;
  CompactionEnv env = compaction_env(tables, job.abort.get(), &opened);
  // Drops make room at hardly any cost.
  const bool deadline = job.plan.reason == Reason::kDeadline;
  const DiskUse use = deadline || job.plan.reason == Reason::kDropped ? DiskUse::kDeadline : DiskUse::kMerge;
  env.may_write = [this, use](std::uint64_t bytes) { return disk_.may_compact(bytes, use); };
  const std::uint64_t file_size = context.settings.file_size;
  if (const std::uint64_t room = disk_.room(use); deadline && is_short(room, file_size)) {
    context.settings.file_size = part_bytes(room, tables->version->runs.size(), file_size);
  }
  const std::uint64_t begun = clock_.mono_ns();
  auto executed = execute(job.plan, *tables->version, context, env);
  if (!executed.is_ok()) {
    leave_failed_outputs(tree);
    return executed.status();
  }
  CompactionResult result = std::move(executed).value();
  deadlines_.note_merge(result.bytes_read, clock_.mono_ns() - begun);
  compaction_read_ += result.bytes_read;
  compaction_written_ += result.bytes_written;
  compactions_ += 1;
  const auto reason = static_cast<std::size_t>(job.plan.reason);
  jobs_by_reason_[reason] += 1;
  read_by_reason_[reason] += result.bytes_read;
  written_by_reason_[reason] += result.bytes_written;
  moves_ += result.files_moved;
  sub_merges_ += result.sub_merges;
  if (job.plan.reason == Reason::kDeadline) tree->budget.spend(result.bytes_written);

  MutexLock manifest(manifest_mutex_);
  VersionPtr current = versions_->tree(tree->id);
  if (tree->dropped || current == nullptr || !has_targets(*current, result.edit) || keeps_quarantined(*current, result.edit)) {
    unlink_outputs(tree, result.outputs, result.redescribed);
    return Status::aborted("");
  }
  result.edit.tree = tree->id;
  // The number of levels that the policy keeps, as of the tree before this edit: it counts for the next plan, and the edits of
  // one tree come one after the other.
  TreeShape shape = current->shape(settings_.memtable_size, file_size, 0, context.now, [](FileNum) { return false; });
  leave_out_frozen(&shape);
  const int levels = policy->levels(shape);
  if (levels != current->levels) result.edit.levels = levels;
  const bool keeps_runs = std::holds_alternative<Slice>(job.plan.action) || std::holds_alternative<Rewrite>(job.plan.action);
  settle_runs(*current, !keeps_runs, &result.edit);
  note_fruitless(*tree, job.plan, *tables->version, result.outputs, context.now);
  VersionEdit edit;
  edit.trees.push_back(std::move(result.edit));
  const Status committed = commit_edit(std::move(edit));
  if (!committed.is_ok()) {
    disown_outputs(tree, result.outputs, result.redescribed);
    background_failed(committed, "compaction");
    return committed;
  }
  TRY(install(*tree, opened, 0));
  if (std::holds_alternative<Drop>(job.plan.action)) pages_dropped(*tree, *tables->version, result);
  return Status::ok();
}

// The tree's tables as the manifest has them now, and its oldest memtables gone, in one step. Only who holds manifest_mutex_
// changes the tables of a view, so they are put together before the lock.
Status DbImpl::install(Tree& tree, const std::map<FileNum, std::shared_ptr<TableReader>>& opened, std::size_t flushed) {
  SeqNum up_to = 0;
  const Millis now = fence(&up_to);
  std::shared_ptr<const TreeView> before;
  FilterNeeds needs;
  {
    MutexLock lock(state_mutex_);
    if (tree.view_owner == nullptr) return Status::aborted("");
    before = tree.view_owner;
    measure_lookups(tree);
    needs = filter_needs(tree);
  }
  bool fitted = true;
  const std::shared_ptr<const TablesView> old = before->tables;
  auto tables =
      make_tables_view(versions_->tree(tree.id), old.get(), opened, needs, &fitted, floor_of(*before, tree.dropped_at, now));
  ASSERT_MSG(tables.is_ok(), "a table that was opened for the edit");
  if (!fitted) {
    if (const TreePtr owner = tree_with(tree.id); owner != nullptr) schedule_filter_fit(owner);
  }
  MutexLock lock(state_mutex_);
  auto view = std::make_shared<TreeView>(*tree.view_owner);
  view->tables = std::move(tables).value();
  view->memtables.resize(view->memtables.size() - flushed);
  tree.frozen.erase(tree.frozen.begin(), tree.frozen.begin() + static_cast<std::ptrdiff_t>(flushed));
  publish_view(tree, std::move(view));
  progress_.notify_all();
  return Status::ok();
}

Result<std::shared_ptr<TableReader>> DbImpl::open_table(const FileMeta& meta) {
  TableReaderOptions options{&fs_, cache_.get(), settings_.dir, settings_.direct_io};
  options.damage = &damage_reports_;
  return TableReader::open(options, files_of(meta));
}

Result<std::shared_ptr<const TablesView>> DbImpl::make_tables_view(const VersionPtr& version, const TablesView* old,
                                                                   const std::map<FileNum, std::shared_ptr<TableReader>>& opened,
                                                                   const FilterNeeds& needs, bool* fitted, Millis floor) {
  // By metadata file: a table whose metadata was replaced is another table to its readers.
  std::map<FileNum, OpenTablePtr> have;
  std::map<FileNum, std::shared_ptr<DataFile>> data_files;
  if (old != nullptr) {
    for (const RunView& run : old->runs) {
      for (const OpenTablePtr& table : run.tables()) {
        have[table->meta->metadata_file] = table;
        data_files[table->meta->data_file] = table->data;
      }
    }
  }
  std::set<FileNum> living;
  auto view = std::make_shared<TablesView>();
  view->version = version;
  for (const Run& run : version->runs) {
    for (const FileMetaPtr& file : run.files) {
      if (file->quarantined()) view->quarantined.push_back(file);
    }
  }
  if (!view->quarantined.empty()) view->frozen = frozen_ranges(version->shape());
  for (const Run& run : version->runs) {
    if (run.files.empty()) continue;
    std::vector<OpenTablePtr> tables;
    bool moves = false;
    for (const FileMetaPtr& file : run.files) {
      living.insert(file->data_file);
      moves |= !view->is_frozen(*file);
      const auto fresh = opened.find(file->metadata_file);
      const auto it = have.find(file->metadata_file);
      if (it != have.end() && fresh == opened.end()) {
        tables.push_back(it->second);
        have.erase(it);
      } else {
        if (it != have.end()) have.erase(it);  // a restored copy of a file that was damaged
        std::shared_ptr<TableReader> reader;
        if (fresh != opened.end()) {
          reader = fresh->second;
        } else {
          TRY_ASSIGN(read, open_table(*file));
          reader = std::move(read);
        }
        std::shared_ptr<DataFile>& data = data_files[file->data_file];
        if (data == nullptr) data = std::make_shared<DataFile>(file->data_file, &obsolete_sink_);
        tables.push_back(std::make_shared<OpenTable>(file, std::move(reader), data, &obsolete_sink_));
      }
      keep_oldest(&view->oldest_obligation, file->oldest_obligation());
      keep_oldest(&view->oldest_obligation, records_birth(file->stats, *version->records));
      keep_oldest(&view->min_expiry, file->stats.min_expiry);
      view->file_bytes += file->data_bytes - file->punched_bytes + file->metadata_bytes;
    }
    if (run.level == version->runs.front().level && moves) ++view->newest_level_runs;
    view->runs.emplace_back(run, std::move(tables));
  }
  *fitted = fit_filters(*view, needs);
  for (const RunView& run : view->runs) {
    for (const OpenTablePtr& table : run.tables()) view->memory_bytes += table->reader->memory_bytes();
  }
  for (const auto& [file, table] : have) {
    const bool with_data = living.count(table->meta->data_file) == 0;
    leave_table(*table, version->tree, floor, with_data);
    table->obsolete.store(true, std::memory_order_release);
    if (with_data) table->data->retire();
  }
  return std::shared_ptr<const TablesView>(std::move(view));
}

// `tables` is the view that the job's version belongs to: while the job holds it, none of its files is unlinked, whatever other
// jobs replace meanwhile. A version without its tables names files that may be gone.
CompactionEnv DbImpl::compaction_env(std::shared_ptr<const TablesView> tables, const std::atomic<bool>* abort,
                                     std::map<FileNum, std::shared_ptr<TableReader>>* opened) {
  CompactionEnv env;
  env.fs = &fs_;
  env.dir = settings_.dir;
  env.pool = pool_;
  env.new_file = [this] { return versions_->new_file(); };
  // Inputs are open already; outputs are kept for the view that will have them.
  auto mutex = std::make_shared<Mutex>();
  env.open_table = [this, opened, mutex, tables](const FileMeta& meta) -> Result<std::shared_ptr<TableReader>> {
    if (tables != nullptr) {
      for (const RunView& run : tables->runs) {
        const int i = run.find(meta.stats.smallest);
        if (i < 0) continue;
        const OpenTable& table = *run.tables()[static_cast<std::size_t>(i)];
        if (table.meta->metadata_file == meta.metadata_file) return table.reader;
      }
    }
    {
      MutexLock lock(*mutex);
      if (auto it = opened->find(meta.metadata_file); it != opened->end()) return it->second;
    }
    TRY_ASSIGN(reader, open_table(meta));
    MutexLock lock(*mutex);
    (*opened)[meta.metadata_file] = reader;
    return reader;
  };
  env.keep_table = [opened, mutex](const FileMeta& meta, std::shared_ptr<TableReader> reader) {
    MutexLock lock(*mutex);
    (*opened)[meta.metadata_file] = std::move(reader);
  };
  env.abort = abort;
  return env;
}

std::vector<TreePtr> DbImpl::live_trees() {
  MutexLock lock(commit_mutex_);
  std::vector<TreePtr> trees;
  for (const auto& [id, tree] : trees_) trees.push_back(tree);
  return trees;
}

void DbImpl::purge_obsolete() {
  epoch_.collect();
  std::vector<ObsoleteFiles> files;
  {
    MutexLock lock(obsolete_mutex_);
    files.swap(obsolete_);
  }
  for (const ObsoleteFiles& f : files) {
    for (const FileNum file : {f.data_file, f.metadata_file}) {
      if (file != kNoFile) cache_->erase_file(file);  // pages that were replaced lie in the metadata file
    }
    remove_files(f);
  }
}

void DbImpl::remove_files(const ObsoleteFiles& files) {
  if (files.data_file != kNoFile) remove_file(data_file_name(files.data_file));
  if (files.metadata_file != kNoFile) remove_file(metadata_file_name(files.metadata_file));
}

// What was deleted is in the file still: it must not stay because the system said no once. Whoever unlinks a file of the engine,
// removals_ remembers that it did not work.
void DbImpl::remove_file(const std::string& name) {
  const Status status = fs_.unlink(join_path(settings_.dir, name));
  if (status.is_ok() || status.is_not_found()) return;
  say(Severity::kWarning, "cannot remove a file, will try again: " + status.to_string());
}

void DbImpl::remove_unremoved() {
  if (!removals_.has_unremoved()) return;
  {
    MutexLock lock(obsolete_mutex_);
    if (clock_.mono_ns() - last_removal_ns_ < kRemovalRetryNs) return;
    last_removal_ns_ = clock_.mono_ns();
  }
  const std::vector<std::string> names = removals_.take_unremoved();
  submit(Priority::kHigh, [this, names = std::move(names)] {
    for (const std::string& name : names) remove_file(name);
  });
}

// By hand: flush, then merge all runs' files in the range into the oldest run's level. One merge does it, once nothing is in its
// way: everything that was there when it was asked for takes part. Whole files do, so a little more than the range may be merged;
// their tombstones outside the range may have to stay, and what is flushed meanwhile is not waited for.
Status DbImpl::compact(DatabaseId database, const KeyRange& range) {
  TreePtr tree = tree_of(database);
  if (tree == nullptr) return Status::ok();
  TRY(flush(database));
  for (bool done = false; !done;) TRY(compact_step(tree, range, &done));
  return Status::ok();
}

Status DbImpl::compact_step(const TreePtr& tree, const KeyRange& range, bool* done) {
  std::optional<RunningJob> job;
  {
    MutexLock lock(state_mutex_);
    if (tree->dropped || tree->view_owner == nullptr) {
      *done = true;
      return Status::ok();
    }
    const Version& version = *tree->view_owner->tables->version;
    TreeShape shape =
        version.shape(settings_.memtable_size, tree->settings.file_size, 0, 0, [&](FileNum f) { return tree->jobs.is_busy(f); });
    leave_out_frozen(&shape);
    bool busy = false;
    const Plan plan = plan_full_merge(shape, range, &busy);
    if (!busy && plan.empty()) {
      *done = true;
      return Status::ok();
    }
    if (!busy) job = tree->jobs.start(plan, version);
    if (!job) {
      // A running job is in the way: wait for any progress, then look again.
      if (!background_error_.is_ok()) return background_error_;
      if (closing_) return Status::aborted("the database is closing");
      if (threads_) progress_.wait_for(state_mutex_, std::chrono::milliseconds(50));
    }
  }
  if (!job) return threads_ || pool_->run_one() ? Status::ok() : Status::aborted("background work is stuck");
  const Status status = execute_job(tree, *job);
  finish_job(tree, job->id);
  {
    MutexLock lock(state_mutex_);
    progress_.notify_all();
  }
  // What it made way for begins now; the next attempt would take its files again.
  if (status.code() == Code::kAborted) schedule_compactions(tree);
  update_pressure();
  purge_obsolete();
  *done = status.is_ok();
  // Jobs may abort each other; then the range is looked at again.
  return tree->dropped || status.code() == Code::kAborted ? Status::ok() : status;
}

}  // namespace ebbtide
