// Plans become jobs, jobs become edits, edits become views.
//
// A job's inputs are marked busy from the moment its plan is chosen until its edit is installed or it failed; policies see the mark.
// A new view takes over the open tables that stay and brings the new ones; tables that went are marked obsolete, and the last view
// that holds one hands its files over for removal.
#include "base/invariant.h"
#include "db/db_impl.h"
#include "io/file_names.h"

namespace ebbtide {
namespace {

std::vector<FileNum> files_of(const Plan& plan) {
  std::vector<FileNum> files;
  const auto add_all = [&](const std::vector<PlanInput>& inputs) {
    for (const PlanInput& input : inputs) files.insert(files.end(), input.files.begin(), input.files.end());
  };
  if (const auto* merge = std::get_if<Merge>(&plan.action)) add_all(merge->inputs);
  if (const auto* slice = std::get_if<Slice>(&plan.action)) add_all(slice->inputs);
  if (const auto* move = std::get_if<Move>(&plan.action)) files = move->files;
  if (const auto* rewrite = std::get_if<Rewrite>(&plan.action)) files = {rewrite->file};
  if (const auto* drop = std::get_if<Drop>(&plan.action)) add_all(drop->inputs);
  return files;
}

}  // namespace

// A pool of the caller's may turn after the database is gone.
void DbImpl::submit(Priority priority, BackgroundPool::Task task) {
  pool_->submit(priority, [alive = alive_, task = std::move(task)] {
    if (*alive) task();
  });
}

void DbImpl::schedule_compactions(const TreePtr& tree) {
  for (;;) {
    Plan plan;
    {
      MutexLock lock(state_mutex_);
      if (closing_ || tree->dropped || tree->view_owner == nullptr || compactions_paused_ > 0) return;
      if (!background_error_.is_ok() && !disk_full_) return;
      if (tree->compactions >= static_cast<int>(pool_->width())) return;
      const Version& version = *tree->view_owner->tables->version;
      const TreeShape shape = version.shape(settings_.memtable_size, tree->settings.file_size, tree->settings.delete_deadline, time_.now(),
                                            [&](FileNum file) { return tree->busy.count(file) != 0; });
      plan = next_drop(*tree);
      if (plan.empty()) plan = tree->policy->next(shape, {time_.now(), tree->settings.file_choice});
      if (plan.empty()) return;
      for (FileNum file : files_of(plan)) {
        const bool fresh = tree->busy.insert(file).second;
        ASSERT_MSG(fresh, "a plan takes a file that a running job has");
      }
      ++tree->compactions;
    }
    submit(Priority::kLow, [this, tree, plan = std::move(plan)] { run_plan(tree, plan); });
  }
}

void DbImpl::run_plan(const TreePtr& tree, const Plan& plan) {
  running_ += 1;
  const Status status = closing_ || tree->dropped ? Status::aborted("") : execute_plan(tree, plan);
  running_ -= 1;
  {
    MutexLock lock(state_mutex_);
    for (FileNum file : files_of(plan)) tree->busy.erase(file);
    --tree->compactions;
    progress_.notify_all();
  }
  update_pressure();
  purge_obsolete();
  if (status.is_ok()) {
    schedule_compactions(tree);
  } else if (status.code() != Code::kAborted) {
    // Writes go on: a compaction that fails loses nothing. It is tried again after the next flush or tick.
    say(Severity::kError, std::string("compaction failed: ") + status.to_string());
    if (status.code() == Code::kCorruption) background_failed(status, "compaction");
  }
}

Status DbImpl::execute_plan(const TreePtr& tree, const Plan& plan) {
  VersionPtr version;
  CompactionContext context;
  {
    MutexLock lock(state_mutex_);
    if (tree->view_owner == nullptr) return Status::aborted("");
    version = tree->view_owner->tables->version;
    context.settings = tree->settings;
  }
  context.now = time_.now();
  context.stamp = tree->stamp;
  context.visible_seq = visible_seq_.load(std::memory_order_acquire);
  std::map<FileNum, std::shared_ptr<TableReader>> opened;
  TRY_ASSIGN(result, execute(plan, *version, context, compaction_env(tree, &opened)));
  compaction_read_ += result.bytes_read;
  compaction_written_ += result.bytes_written;
  compactions_ += 1;
  moves_ += result.files_moved;
  if (std::holds_alternative<Drop>(plan.action)) dropped_files_ += result.edit.removed_files.size();

  MutexLock manifest(manifest_mutex_);
  VersionPtr current = versions_->tree(tree->id);
  if (tree->dropped || current == nullptr) {
    for (const FileMeta& output : result.outputs) {
      (void)fs_.unlink(join_path(settings_.dir, data_file_name(output.data_file)));
      (void)fs_.unlink(join_path(settings_.dir, metadata_file_name(output.metadata_file)));
    }
    return Status::aborted("");
  }
  result.edit.tree = tree->id;
  renumber_runs(*current, &result.edit);
  VersionEdit edit;
  edit.trees.push_back(std::move(result.edit));
  const Status committed = commit_edit(std::move(edit));
  if (!committed.is_ok()) {
    background_failed(committed, "compaction");
    return committed;
  }
  return install(tree, opened);
}

Status DbImpl::install(const TreePtr& tree, const std::map<FileNum, std::shared_ptr<TableReader>>& opened) {
  MutexLock lock(state_mutex_);
  if (tree->view_owner == nullptr) return Status::aborted("");
  auto view = std::make_shared<TreeView>(*tree->view_owner);
  const std::shared_ptr<const TablesView> old = view->tables;
  auto tables = make_tables_view(versions_->tree(tree->id), old.get(), opened);
  ASSERT_MSG(tables.is_ok(), "a table that was opened for the edit");
  view->tables = std::move(tables).value();
  publish_view(*tree, std::move(view));
  return Status::ok();
}

Result<std::shared_ptr<TableReader>> DbImpl::open_table(const FileMeta& meta) {
  return TableReader::open({&fs_, cache_.get(), settings_.dir, settings_.direct_io},
                           {meta.data_file, meta.metadata_file, meta.data_bytes, meta.metadata_bytes, meta.data_checksum,
                            meta.metadata_checksum});
}

Result<std::shared_ptr<const TablesView>> DbImpl::make_tables_view(const VersionPtr& version, const TablesView* old,
                                                                   const std::map<FileNum, std::shared_ptr<TableReader>>& opened) {
  // By metadata file: a table whose metadata was replaced is another table to its readers.
  std::map<FileNum, OpenTablePtr> have;
  if (old != nullptr) {
    for (const RunView& run : old->runs) {
      for (const OpenTablePtr& table : run.tables()) have[table->meta->metadata_file] = table;
    }
  }
  auto view = std::make_shared<TablesView>();
  view->version = version;
  for (const Run& run : version->runs) {
    if (run.files.empty()) continue;
    std::vector<OpenTablePtr> tables;
    for (const FileMetaPtr& file : run.files) {
      if (auto it = have.find(file->metadata_file); it != have.end()) {
        tables.push_back(it->second);
        have.erase(it);
      } else if (auto fresh = opened.find(file->metadata_file); fresh != opened.end()) {
        tables.push_back(std::make_shared<OpenTable>(file, fresh->second, &obsolete_sink_));
      } else {
        TRY_ASSIGN(reader, open_table(*file));
        tables.push_back(std::make_shared<OpenTable>(file, std::move(reader), &obsolete_sink_));
      }
      view->memory_bytes += tables.back()->reader->memory_bytes();
    }
    view->runs.emplace_back(run, std::move(tables));
  }
  for (const auto& [file, table] : have) table->obsolete.store(true, std::memory_order_release);
  return std::shared_ptr<const TablesView>(std::move(view));
}

CompactionEnv DbImpl::compaction_env(const TreePtr& tree, std::map<FileNum, std::shared_ptr<TableReader>>* opened) {
  CompactionEnv env;
  env.fs = &fs_;
  env.dir = settings_.dir;
  env.pool = pool_;
  env.new_file = [this] { return versions_->new_file(); };
  // Inputs are open already; outputs are kept for the view that will have them.
  auto mutex = std::make_shared<Mutex>();
  std::shared_ptr<const TablesView> tables;
  {
    MutexLock lock(state_mutex_);
    if (tree->view_owner != nullptr) tables = tree->view_owner->tables;
  }
  env.open_table = [this, opened, mutex, tables](const FileMeta& meta) -> Result<std::shared_ptr<TableReader>> {
    if (tables != nullptr) {
      for (const RunView& run : tables->runs) {
        for (const OpenTablePtr& table : run.tables()) {
          if (table->meta->metadata_file == meta.metadata_file) return table->reader;
        }
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
  env.abort = &tree->dropped;
  return env;
}

void DbImpl::purge_obsolete() {
  epoch_.collect();
  std::vector<TableFiles> files;
  {
    MutexLock lock(obsolete_mutex_);
    files.swap(obsolete_);
  }
  for (const TableFiles& f : files) {
    cache_->erase_file(f.data_file);
    for (const std::string& name : {data_file_name(f.data_file), metadata_file_name(f.metadata_file)}) {
      const Status status = fs_.unlink(join_path(settings_.dir, name));
      if (!status.is_ok() && !status.is_not_found()) say(Severity::kWarning, "cannot remove a table: " + status.to_string());
    }
  }
}

// By hand: flush, then merge all runs' files in the range into the oldest run's level, one plan at a time, until a single run has the
// range. Whole files take part, so a little more than the range may be merged.
Status DbImpl::compact(DatabaseId database, const KeyRange& range) {
  TreePtr tree = tree_of(database);
  if (tree == nullptr) return Status::ok();
  TRY(flush(database));
  for (bool done = false; !done;) TRY(compact_step(tree, range, &done));
  return Status::ok();
}

Status DbImpl::compact_step(const TreePtr& tree, const KeyRange& range, bool* done) {
  Plan plan;
  bool busy = false;
  {
    MutexLock lock(state_mutex_);
    if (tree->dropped || tree->view_owner == nullptr) {
      *done = true;
      return Status::ok();
    }
    const Version& version = *tree->view_owner->tables->version;
    const TreeShape shape =
        version.shape(settings_.memtable_size, tree->settings.file_size, 0, 0, [&](FileNum f) { return tree->busy.count(f) != 0; });
    plan = plan_full_merge(shape, range, &busy);
    if (!busy) {
      if (plan.empty()) {
        *done = true;
        return Status::ok();
      }
      for (FileNum file : files_of(plan)) tree->busy.insert(file);
      ++tree->compactions;
    }
  }
  if (busy) {
    // A running job has some of it: wait for any progress, then look again.
    MutexLock lock(state_mutex_);
    if (!background_error_.is_ok()) return background_error_;
    if (closing_) return Status::aborted("the database is closing");
    if (threads_) {
      progress_.wait_for_ms(state_mutex_, 50);
    } else {
      state_mutex_.unlock();
      const bool ran = pool_->run_one();
      state_mutex_.lock();
      if (!ran) return Status::aborted("background work is stuck");
    }
    return Status::ok();
  }
  const Status status = execute_plan(tree, plan);
  {
    MutexLock lock(state_mutex_);
    for (FileNum file : files_of(plan)) tree->busy.erase(file);
    --tree->compactions;
    progress_.notify_all();
  }
  update_pressure();
  purge_obsolete();
  if (tree->dropped) return Status::ok();
  return status;
}

}  // namespace ebbtide
