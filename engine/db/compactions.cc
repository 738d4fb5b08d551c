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
#include "db/background/full_merge.h"
#include "db/db_impl.h"
#include "io/file_names.h"
#include "tree/frozen.h"

namespace ebbtide {
namespace {
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

// Tables, settings and what is known of the tree, as of now. The caller completes it without the lock.
PlannerInput DbImpl::begin_input(Tree& tree, Millis now) {
  const std::uint64_t mono_ns = clock_.mono_ns();
  PlannerInput input;
  input.tables = tree.view_owner->tables;
  input.policy = tree.policy;
  input.jobs = &tree.jobs;
  input.now = now;
  input.file_choice = tree.settings.file_choice;
  input.paused = compactions_paused_ > 0 || tree.merges.rests(mono_ns);
  input.deadlines_rest = tree.deadline_merges.rests(mono_ns);
  input.deadlines = tree.deadlines;
  input.delete_deadline = tree.settings.delete_deadline;
  input.purge_before = std::max(tree.purge_before.load(std::memory_order_relaxed), input.tables->version->overdue_before());
  input.fruitless = fruitless_files(tree);
  input.shape.file_bytes = tree.settings.file_size;
  const bool same = tree.pages_of.lock() == input.tables && tree.pages_purged_by == input.purge_before;
  input.look_for_pages = !same || (tree.next_page_look != 0 && now >= tree.next_page_look);
  if (input.look_for_pages) input.parts_done = tree.parts_done;
  return input;
}

void DbImpl::complete_input(Tree& tree, PlannerInput* input) {
  const TablesView& tables = *input->tables;
  input->shape = shape_for_deadlines(tree, *tables.version, input->shape.file_bytes, input->deadlines, input->now);
  if (input->file_choice == FileChoice::kMostTombstones) estimate_invalidated(tables, &input->shape);
  if (!tables.quarantined.empty()) {
    input->whole = input->shape;
    tree.jobs.mark_running(&input->whole);
    leave_out_frozen(&input->shape);
  }
  input->visible_seq = published_.visible_seq();
  input->margin = tree.margin.load(std::memory_order_relaxed);
  input->over_budget = tree.budget.is_spent();
  input->room = disk_.room(DiskUse::kDeadline);
  input->room_claimed = disk_.claimed_bytes() != 0;
  input->can_punch = hole_puncher_.can_punch();
  input->not_punched = hole_puncher_.not_punched(*tables.version);
}

// Plans are made without a lock, of tables that stay as they are. A plan holds only if the tree still has those tables.
std::optional<RunningJob> DbImpl::next_job(const TreePtr& tree) {
  for (;;) {
    PlannerInput input;
    const Millis now = time_.stamped();  // as the job will judge what has expired
    {
      MutexLock lock(state_mutex_);
      if (!may_compact(*tree) || tree->view_owner->tables->runs.empty()) return std::nullopt;
      input = begin_input(*tree, now);
    }
    if (input.paused && input.deadlines_rest) return std::nullopt;
    complete_input(*tree, &input);
    PlannerNotes notes;
    std::optional<RunningJob> job;
    (void)start_first(planners(), &input, &notes, [&](const Plan& plan) { return start_job(*tree, input, plan, &job); });
    note_planned(*tree, input, notes);
    if (job) return job;
    MutexLock lock(state_mutex_);
    if (tree->view_owner == nullptr || tree->view_owner->tables == input.tables) return std::nullopt;
  }
}

Attempt DbImpl::start_job(Tree& tree, const PlannerInput& input, const Plan& plan, std::optional<RunningJob>* job) {
  MutexLock lock(state_mutex_);
  if (!may_compact(tree) || tree.view_owner->tables != input.tables) return Attempt::kOutdated;
  *job = tree.jobs.start(plan, *input.tables->version);
  if (!*job) return Attempt::kInTheWay;
  if (plan.reason == Reason::kDeadline) {
    tree.budget.spend((*job)->bytes);
    disk_.claim((*job)->bytes);
  }
  return Attempt::kStarted;
}

void DbImpl::note_planned(Tree& tree, const PlannerInput& input, const PlannerNotes& notes) {
  if (notes.next_page_look) {
    MutexLock lock(state_mutex_);
    tree.pages_of = input.tables;
    tree.pages_purged_by = input.purge_before;
    tree.next_page_look = *notes.next_page_look;
  }
  if (notes.broken_bounds) note_bounds(tree, *input.policy, *notes.broken_bounds);
}

// A tree at rest should keep the bounds of its policy. If it does not, nothing is lost and the engine goes on. It is logged once,
// since planners are asked again after each flush.
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
  obsolete_files_.remove_queued();
  hole_puncher_.schedule(tree->id);
  if (status.is_ok() || (status.code() == Code::kAborted && !closing_ && !tree->dropped)) {
    schedule_compactions(tree);  // a job that gave way made room for what it gave way to
  } else if (status.code() != Code::kAborted) {
    say(Severity::kError, std::string("compaction failed: ") + status.to_string());
    if (status.code() != Code::kCorruption) return;
    // Damage of an input is that file's matter alone; of anything else it is unknown what else is wrong.
    const Status taken = quarantine_.take_reports();
    if (taken.is_ok() && !takes_quarantined(*tree, job.plan)) background_failed(status, "compaction");
  }
}

// Whether an input of the plan is quarantined by now.
bool DbImpl::takes_quarantined(const Tree& tree, const Plan& plan) {
  std::set<FileNum> quarantined;
  {
    MutexLock lock(state_mutex_);
    if (tree.view_owner == nullptr) return true;  // it is dropped
    for (const FileMetaPtr& file : tree.view_owner->tables->quarantined) quarantined.insert(file->data_file);
  }
  for (const PlanInput& input : inputs_of(plan)) {
    for (const FileNum file : input.files) {
      if (quarantined.count(file) != 0) return true;
    }
  }
  return false;
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

// One job from its plan to its edit: what it starts from, and what it has written.
struct DbImpl::JobRun {
  const TreePtr& tree;
  const RunningJob& job;
  std::shared_ptr<const int> working{};  // the tree knows that files are written for it
  std::shared_ptr<const TablesView> tables{};
  std::shared_ptr<const Policy> policy{};
  CompactionContext context{};
  std::uint64_t file_size = 0;                               // as configured; on a short disk outputs are smaller
  std::map<FileNum, std::shared_ptr<TableReader>> opened{};  // outputs, by metadata file
  CompactionResult result{};

  [[nodiscard]] bool is_for_deadline() const { return job.plan.reason == Reason::kDeadline; }
  // Drops make room at hardly any cost.
  [[nodiscard]] DiskUse disk_use() const {
    return is_for_deadline() || job.plan.reason == Reason::kDropped ? DiskUse::kDeadline : DiskUse::kMerge;
  }
};

Status DbImpl::execute_job(const TreePtr& tree, const RunningJob& job) {
  JobRun run{tree, job};
  TRY(prepare_job(&run));
  TRY(write_job(&run));
  return install_job(&run);
}

Status DbImpl::prepare_job(JobRun* run) {
  FilterNeeds needs;
  {
    MutexLock lock(state_mutex_);
    const Tree& tree = *run->tree;
    if (tree.view_owner == nullptr) return Status::aborted("");
    run->working = tree.work;
    run->tables = tree.view_owner->tables;
    run->policy = tree.policy;
    run->context.settings = table_settings(tree);
    needs = filter_needs(tree);
  }
  run->context.filters = filters_after(*run->tables, run->job.plan, needs);
  run->context.now = time_.stamped();
  run->context.stamp = run->tree->stamp;
  run->context.visible_seq = published_.visible_seq();
  run->file_size = run->context.settings.file_size;
  if (!run->is_for_deadline()) return Status::ok();
  const std::uint64_t room = disk_.room(DiskUse::kDeadline);
  if (is_short(room, run->file_size)) {
    run->context.settings.file_size = part_bytes(room, run->tables->version->runs.size(), run->file_size);
  }
  return Status::ok();
}

// Reads inputs and writes outputs; no lock is held.
Status DbImpl::write_job(JobRun* run) {
  const RunningJob& job = run->job;
  CompactionEnv env = compaction_env(run->tables, job.abort.get(), &run->opened);
  env.may_write = [this, use = run->disk_use()](std::uint64_t bytes) { return disk_.may_compact(bytes, use); };
  const std::uint64_t begun = clock_.mono_ns();
  auto executed = execute(job.plan, *run->tables->version, run->context, env);
  if (!executed.is_ok()) {
    leave_failed_outputs(run->tree);
    return executed.status();
  }
  run->result = std::move(executed).value();
  const CompactionResult& result = run->result;
  deadlines_.note_merge(result.bytes_read, clock_.mono_ns() - begun);
  if (run->is_for_deadline()) run->tree->budget.spend(result.bytes_written);
  compaction_read_ += result.bytes_read;
  compaction_written_ += result.bytes_written;
  compactions_ += 1;
  const auto reason = static_cast<std::size_t>(job.plan.reason);
  jobs_by_reason_[reason] += 1;
  read_by_reason_[reason] += result.bytes_read;
  written_by_reason_[reason] += result.bytes_written;
  moves_ += result.files_moved;
  sub_merges_ += result.sub_merges;
  return Status::ok();
}

// Commits the edit, and gives readers the new tables. Nothing is installed if the tree has changed so that the edit is wrong.
Status DbImpl::install_job(JobRun* run) {
  const TreePtr& tree = run->tree;
  const Plan& plan = run->job.plan;
  CompactionResult& result = run->result;
  MutexLock manifest(manifest_mutex_);
  const VersionPtr current = versions_->tree(tree->id);
  if (tree->dropped || current == nullptr || !has_targets(*current, result.edit) || keeps_quarantined(*current, result.edit)) {
    unlink_outputs(tree, result.outputs, result.redescribed);
    return Status::aborted("");
  }
  result.edit.tree = tree->id;
  // The number of levels follows from the tree before this edit; the next plan uses it. Edits of one tree come one by one.
  TreeShape shape = current->shape(settings_.memtable_size, run->file_size, 0, run->context.now, [](FileNum) { return false; });
  leave_out_frozen(&shape);
  const int levels = run->policy->levels(shape);
  if (levels != current->levels) result.edit.levels = levels;
  const bool keeps_runs = std::holds_alternative<Slice>(plan.action) || std::holds_alternative<Rewrite>(plan.action);
  settle_runs(*current, !keeps_runs, &result.edit);
  note_fruitless(*tree, plan, *run->tables->version, result.outputs, run->context.now);
  VersionEdit edit;
  edit.trees.push_back(std::move(result.edit));
  const Status committed = commit_edit(std::move(edit));
  if (!committed.is_ok()) {
    disown_outputs(tree, result.outputs, result.redescribed);
    background_failed(committed, "compaction");
    return committed;
  }
  TRY(install(*tree, run->opened, 0));
  if (std::holds_alternative<Drop>(plan.action)) pages_dropped(*tree, *run->tables->version, result);
  return Status::ok();
}

// Counts, and notes which files were dropped from in part. `version` is the one that the drop was made of.
void DbImpl::pages_dropped(Tree& tree, const Version& version, const CompactionResult& result) {
  for (const Run& run : version.runs) {
    for (const FileMetaPtr& file : run.files) {
      if (std::find(result.dropped.begin(), result.dropped.end(), file->data_file) == result.dropped.end()) continue;
      drops_.files += 1;
      drops_.unlinked_bytes += file->data_bytes - file->punched_bytes + file->metadata_bytes;
    }
  }
  drops_.pages_whole += result.pages_whole;
  drops_.pages_in_part += result.pages_in_part;
  if (!result.redescribed.empty()) hole_puncher_.note_dead(tree.id);
  if (result.parts_done.empty()) return;
  const auto& records = version.records->records();
  const SeqNum newest = records.empty() ? 0 : records.back().seq;
  MutexLock lock(state_mutex_);
  if (tree.view_owner == nullptr) return;  // dropped meanwhile
  std::set<FileNum> living;
  for (const RunView& run : tree.view_owner->tables->runs) {
    for (const OpenTablePtr& table : run.tables()) living.insert(table->meta->metadata_file);
  }
  std::erase_if(tree.parts_done, [&](const auto& done) { return living.count(done.first) == 0; });
  for (const FileNum file : result.parts_done) tree.parts_done[file] = newest;
  tree.pages_of.reset();
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
  options.damage = quarantine_.sink();
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
        if (data == nullptr) data = std::make_shared<DataFile>(file->data_file, obsolete_files_.sink());
        tables.push_back(std::make_shared<OpenTable>(file, std::move(reader), data, obsolete_files_.sink()));
      }
      keep_oldest(&view->oldest_obligation, file->oldest_obligation());
      keep_oldest(&view->oldest_obligation, records_birth(file->stats, *version->records));
      keep_oldest(&view->min_expiry, file->stats.min_expiry);
      view->file_bytes += file->data_bytes - file->punched_bytes + file->metadata_bytes;
    }
    if (run.level == version->runs.front().level && moves) ++view->newest_level_runs;
    view->runs.emplace_back(run, std::move(tables));
  }
  *fitted = fit_filters(*view, needs, {clock_, epoch_, [this](const std::string& text) { say(Severity::kWarning, text); }});
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
  obsolete_files_.remove_queued();
  *done = status.is_ok();
  // Jobs may abort each other; then the range is looked at again.
  return tree->dropped || status.code() == Code::kAborted ? Status::ok() : status;
}

}  // namespace ebbtide
