#include "db/background/table_installer.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/invariant.h"
#include "compaction/table_files.h"
#include "io/file_names.h"
#include "tree/frozen.h"

namespace ebbtide {

/// The tables of an earlier view, compared with a new version: the chunks that the new version still has, and the tables of all
/// other chunks. A table that was added, removed or moved is in a chunk that has changed.
class TableInstaller::Changed {
 public:
  /// `old` may be null.
  Changed(const VersionPtr& version, const TablesView* old) : first_(old == nullptr) {
    if (first_) return;
    std::unordered_set<const FileList::Chunk*> stay;
    for (const Run& run : version->runs) {
      for (std::size_t c = 0; c < run.files.chunks(); ++c) stay.insert(&run.files.at_chunk(c));
    }
    auto view = old->runs.begin();
    for (const Run& run : old->version->runs) {
      if (run.files.empty()) continue;  // the view has no such runs
      earlier_[run.id] = &*view;
      const TableList& tables = (view++)->tables();
      ASSERT(tables.chunks() == run.files.chunks());
      for (std::size_t c = 0; c < tables.chunks(); ++c) {
        if (stay.contains(&run.files.at_chunk(c))) {
          same_[&run.files.at_chunk(c)] = tables.chunk(c);
          continue;
        }
        for (const OpenTablePtr& table : tables.at_chunk(c).items) {
          // The key is the metadata file, since a table with a new metadata file is another table for readers.
          have_[table->meta->metadata_file] = table;
          data_files_[table->meta->data_file] = table->data;
        }
      }
    }
  }

  /// Returns the tables of these files, or null if the chunk has changed.
  [[nodiscard]] TableList::ChunkPtr same_chunk(const FileList::Chunk& files) const {
    const auto at = same_.find(&files);
    return at == same_.end() ? nullptr : at->second;
  }
  /// True if there is no earlier view.
  [[nodiscard]] bool is_first() const { return first_; }
  /// Returns the open table of a file of a changed chunk, or null if the file is new. Marks the data file as still used.
  OpenTablePtr take(const FileMeta& file) {
    if (first_) return nullptr;
    living_.insert(file.data_file);
    const auto at = have_.find(file.metadata_file);
    if (at == have_.end()) return nullptr;
    OpenTablePtr table = std::move(at->second);
    have_.erase(at);
    return table;
  }
  /// Returns the data file with this number that an earlier table has open; null if there is none.
  [[nodiscard]] std::shared_ptr<DataFile> data_file(FileNum number) const {
    const auto at = data_files_.find(number);
    return at == data_files_.end() ? nullptr : at->second;
  }
  [[nodiscard]] const RunView* earlier(RunId run) const {
    const auto at = earlier_.find(run);
    return at == earlier_.end() ? nullptr : at->second;
  }
  /// Calls `visit` for each table that was not taken. The second argument is true if no taken or new table has its data file.
  template <typename Visit>
  void for_each_gone(Visit visit) const {
    for (const auto& [file, table] : have_) visit(*table, living_.count(table->meta->data_file) == 0);
  }

 private:
  const bool first_;
  std::unordered_map<const FileList::Chunk*, TableList::ChunkPtr> same_;
  std::map<RunId, const RunView*> earlier_;
  std::map<FileNum, OpenTablePtr> have_;
  std::map<FileNum, std::shared_ptr<DataFile>> data_files_;
  std::set<FileNum> living_;  // data files of taken tables and of new tables
};

TableReaderOptions TableInstaller::reader_options() const {
  TableReaderOptions options{env_.fs, env_.cache(), env_.dir, env_.direct_io};
  options.damage = env_.damage;
  options.open_files = env_.open_files;
  options.indexes = env_.indexes;
  return options;
}

Result<std::shared_ptr<TableReader>> TableInstaller::open(const FileMeta& meta) const {
  return TableReader::open(reader_options(), files_of(meta));
}

std::shared_ptr<TableReader> TableInstaller::open_unreadable(const FileMeta& meta, Status why) const {
  const TableReaderOptions options{env_.fs, env_.cache(), env_.dir, env_.direct_io};
  return TableReader::unreadable(options, files_of(meta), meta.stats, std::move(why));
}

Result<std::shared_ptr<const TablesView>> TableInstaller::make_view(const VersionPtr& version, const TablesView* old,
                                                                    const OpenedTables& opened, Millis floor,
                                                                    const std::function<void(TablesView&)>& fit) const {
  Changed changed(version, old);
  auto view = std::make_shared<TablesView>();
  view->version = version;
  const FileSums sums = version->sums();
  if (sums.quarantined != 0) {
    for (const Run& run : version->runs) {
      for (const FileMetaPtr& file : run.files) {
        if (file->quarantined()) view->quarantined.push_back(file);
      }
    }
    view->frozen = frozen_ranges(version->shape());
  }
  view->oldest_obligation = sums.oldest_obligation;
  view->min_expiry = sums.min_expiry;
  view->collections = sums.collections != 0;
  view->headers = sums.headers != 0;
  view->file_bytes = sums.file_bytes;
  for (const Run& run : version->runs) {
    if (run.files.empty()) continue;
    TableList tables;
    for (std::size_t c = 0; c < run.files.chunks(); ++c) {
      TableList::ChunkPtr chunk = changed.same_chunk(run.files.at_chunk(c));
      if (chunk == nullptr) {
        TRY_ASSIGN(made, make_chunk(run.files.at_chunk(c), opened, &changed));
        chunk = std::move(made);
      }
      tables.push_chunk(std::move(chunk));
    }
    const auto moves = [&](const FileMetaPtr& file) { return !view->is_frozen(*file); };
    // Counts only runs of level 0: a deeper level may have far more runs than level 0 ever has.
    if (run.level == 0 && (view->frozen.empty() || std::any_of(run.files.begin(), run.files.end(), moves))) {
      ++view->level0_runs;
    }
    view->runs.emplace_back(run, std::move(tables), changed.earlier(run.id));
  }
  view->fitted = old == nullptr ? nullptr : old->fitted;
  fit(*view);
  for (const RunView& run : view->runs) view->memory_bytes += run.sums().memory_bytes;
  changed.for_each_gone([&](const OpenTable& table, bool with_data) { leave(table, version->tree, floor, with_data); });
  return std::shared_ptr<const TablesView>(std::move(view));
}

Result<TableList::ChunkPtr> TableInstaller::make_chunk(const FileList::Chunk& files, const OpenedTables& opened,
                                                       Changed* changed) const {
  auto chunk = std::make_shared<TableList::Chunk>();
  chunk->items.reserve(files.items.size());
  const TableReaderOptions options = reader_options();
  for (const FileMetaPtr& file : files.items) {
    const auto fresh = opened.find(file->metadata_file);
    OpenTablePtr same = changed->take(*file);
    if (same != nullptr && fresh == opened.end()) {
      chunk->items.push_back(std::move(same));
      continue;
    }
    // The file may already have a table although `opened` has a reader of it. Then the file was damaged, and the reader has
    // opened the restored copy: a new table with this reader replaces the old table.
    std::shared_ptr<TableReader> reader;
    if (fresh != opened.end()) {
      reader = fresh->second;
    } else if (changed->is_first()) {
      reader = TableReader::lazy(options, files_of(*file), file->stats);
    } else {
      TRY_ASSIGN(read, open(*file));
      reader = std::move(read);
    }
    std::shared_ptr<DataFile> data = changed->data_file(file->data_file);
    if (data == nullptr) data = std::make_shared<DataFile>(file->data_file, env_.sink);
    chunk->items.push_back(std::make_shared<OpenTable>(file, std::move(reader), std::move(data), env_.sink));
  }
  return TableList::ChunkPtr(std::move(chunk));
}

void TableInstaller::leave(const OpenTable& table, TreeId tree, Millis floor, bool with_data) const {
  const FileMeta& meta = *table.meta;
  table.floor.store(floor, std::memory_order_relaxed);
  env_.ledger->leave({metadata_file_name(meta.metadata_file), meta.metadata_bytes, {{tree, floor}}, table.reader});
  if (with_data) {
    for (const auto& reader : table.data->readers()) {
      env_.ledger->leave({data_file_name(meta.data_file), meta.data_bytes, {{tree, floor}}, reader});
    }
  }
  table.obsolete.store(true, std::memory_order_release);
  if (with_data) table.data->retire();
}

void TableInstaller::retire(const TablesView& tables, Millis floor) const {
  for (const RunView& run : tables.runs) {
    for (const OpenTablePtr& table : run.tables()) leave(*table, tables.version->tree, floor, true);
  }
}

Result<std::shared_ptr<const TablesView>> TableInstaller::install(Tree& tree, const OpenedTables& opened,
                                                                  std::size_t flushed) const {
  const Millis now = env_.fence();  // read before the view is loaded, so that the view has all deletes born before `now`
  std::shared_ptr<const TreeView> before;
  {
    MutexLock lock(*env_.state_mutex);
    if (tree.view_owner == nullptr) return Status::aborted("");
    before = tree.view_owner;
  }
  bool fitted = true;
  auto tables = replace(tree, *before, opened, env_.floor(*before, tree.dropped_at, now), flushed, &fitted);
  if (!fitted) env_.fit_filters_later(tree.id);
  return tables;
}

void TableInstaller::install_replayed(Tree& tree, const OpenedTables& opened, std::size_t flushed) const {
  std::shared_ptr<const TreeView> before;
  {
    MutexLock lock(*env_.state_mutex);
    before = tree.view_owner;
  }
  bool fitted = true;  // unused: the first install after the replay continues to fit the filters
  (void)replace(tree, *before, opened, 0, flushed, &fitted);
}

// Only a thread that holds the manifest mutex changes the tables of a view. So the tables are prepared before the state mutex is
// locked.
std::shared_ptr<const TablesView> TableInstaller::replace(Tree& tree, const TreeView& before, const OpenedTables& opened,
                                                          Millis floor, std::size_t flushed, bool* fitted) const {
  auto made = make_view(env_.version(tree.id), before.tables.get(), opened, floor,
                        [&](TablesView& view) { *fitted = env_.fit_filters(tree, view); });
  ASSERT_MSG(made.is_ok(), "each new table was opened for the edit");
  std::shared_ptr<const TablesView> tables = std::move(made).value();
  MutexLock lock(*env_.state_mutex);
  auto view = std::make_shared<TreeView>(*tree.view_owner);
  view->tables = tables;
  view->memtables.resize(view->memtables.size() - flushed);
  tree.frozen.erase(tree.frozen.begin(), tree.frozen.begin() + static_cast<std::ptrdiff_t>(flushed));
  env_.publish(tree, std::move(view));
  return tables;
}

namespace {

/// Finds the open tables of a view. A job's inputs are searched for only in the run that the plan names: a merge of a thousand
/// runs would otherwise search each run for each file.
class OpenInputs {
 public:
  OpenInputs(std::shared_ptr<const TablesView> tables, const std::vector<PlanInput>& inputs) : tables_(std::move(tables)) {
    if (inputs.empty()) return;  // a flush
    std::unordered_map<RunId, const RunView*> runs;
    for (const RunView& run : tables_->runs) runs[run.id()] = &run;
    for (const PlanInput& input : inputs) {
      const auto run = runs.find(input.run);
      if (run == runs.end()) continue;  // the executor refuses the plan
      for (const FileNum file : input.files) run_of_[file] = run->second;
    }
  }
  /// Returns the table of a file; null if the view does not have it.
  [[nodiscard]] std::shared_ptr<TableReader> find(const FileMeta& meta) const {
    if (const auto run = run_of_.find(meta.data_file); run != run_of_.end()) return in(*run->second, meta);
    for (const RunView& run : tables_->runs) {
      if (auto reader = in(run, meta); reader != nullptr) return reader;
    }
    return nullptr;
  }

 private:
  static std::shared_ptr<TableReader> in(const RunView& run, const FileMeta& meta) {
    const OpenTable* const table = run.table_of(meta);
    return table != nullptr && table->meta->metadata_file == meta.metadata_file ? table->reader : nullptr;
  }

  const std::shared_ptr<const TablesView> tables_;
  std::unordered_map<FileNum, const RunView*> run_of_;  // by data file number: the runs of the plan's inputs
};

}  // namespace

CompactionEnv TableInstaller::compaction_env(std::shared_ptr<const TablesView> tables, const std::vector<PlanInput>& inputs,
                                             const std::atomic<bool>* abort, OpenedTables* opened) const {
  CompactionEnv env;
  env.fs = env_.fs;
  env.dir = env_.dir;
  env.pool = env_.pool();
  env.new_file = env_.new_file;
  // The job's inputs are open already. Outputs that the job opens stay open for the view that will contain them.
  auto mutex = std::make_shared<Mutex>();
  const auto known = std::make_shared<const OpenInputs>(std::move(tables), inputs);
  const auto find = [opened, mutex, known](const FileMeta& meta) -> std::shared_ptr<TableReader> {
    if (auto reader = known->find(meta); reader != nullptr) return reader;
    MutexLock lock(*mutex);
    const auto it = opened->find(meta.metadata_file);
    return it == opened->end() ? nullptr : it->second;
  };
  env.find_table = [find](const FileMeta& meta) {
    const auto reader = find(meta);
    return reader == nullptr ? nullptr : reader->pinned_if_loaded();
  };
  env.open_table = [this, find, opened, mutex](const FileMeta& meta) -> Result<std::shared_ptr<TableReader>> {
    if (const auto reader = find(meta); reader != nullptr) return reader->pinned();
    TRY_ASSIGN(reader, open(meta));
    {
      MutexLock lock(*mutex);
      (*opened)[meta.metadata_file] = reader;
    }
    return reader->pinned();
  };
  env.keep_table = [opened, mutex](const FileMeta& meta, std::shared_ptr<TableReader> reader) {
    MutexLock lock(*mutex);
    (*opened)[meta.metadata_file] = std::move(reader);
  };
  env.abort = abort;
  return env;
}

}  // namespace ebbtide
