#include "db/background/table_installer.h"

#include <set>
#include <utility>

#include "base/invariant.h"
#include "base/oldest.h"
#include "compaction/table_files.h"
#include "io/file_names.h"
#include "tree/frozen.h"

namespace ebbtide {

Result<std::shared_ptr<TableReader>> TableInstaller::open(const FileMeta& meta) const {
  TableReaderOptions options{env_.fs, env_.cache(), env_.dir, env_.direct_io};
  options.damage = env_.damage;
  options.open_files = env_.open_files;
  return TableReader::open(options, files_of(meta));
}

std::shared_ptr<TableReader> TableInstaller::open_unreadable(const FileMeta& meta, Status why) const {
  const TableReaderOptions options{env_.fs, env_.cache(), env_.dir, env_.direct_io};
  return TableReader::unreadable(options, files_of(meta), meta.stats, std::move(why));
}

Result<std::shared_ptr<const TablesView>> TableInstaller::make_view(const VersionPtr& version, const TablesView* old,
                                                                    const OpenedTables& opened, Millis floor,
                                                                    const std::function<void(const TablesView&)>& fit) const {
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
          TRY_ASSIGN(read, open(*file));
          reader = std::move(read);
        }
        std::shared_ptr<DataFile>& data = data_files[file->data_file];
        if (data == nullptr) data = std::make_shared<DataFile>(file->data_file, env_.sink);
        tables.push_back(std::make_shared<OpenTable>(file, std::move(reader), data, env_.sink));
      }
      keep_oldest(&view->oldest_obligation, file->oldest_obligation());
      keep_oldest(&view->oldest_obligation, records_birth(file->stats, *version->records));
      keep_oldest(&view->min_expiry, file->stats.min_expiry);
      view->file_bytes += file->data_bytes - file->punched_bytes + file->metadata_bytes;
    }
    if (run.level == version->runs.front().level && moves) ++view->newest_level_runs;
    view->runs.emplace_back(run, std::move(tables));
  }
  fit(*view);
  for (const RunView& run : view->runs) {
    for (const OpenTablePtr& table : run.tables()) view->memory_bytes += table->reader->memory_bytes();
  }
  for (const auto& [file, table] : have) leave(*table, version->tree, floor, living.count(table->meta->data_file) == 0);
  return std::shared_ptr<const TablesView>(std::move(view));
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

// Only the holder of the manifest mutex changes the tables of a view, so they are prepared before the state mutex is locked.
Status TableInstaller::install(Tree& tree, const OpenedTables& opened, std::size_t flushed) const {
  const Millis now = env_.fence();  // before the view is loaded, so that the view has all deletes born before
  std::shared_ptr<const TreeView> before;
  {
    MutexLock lock(*env_.state_mutex);
    if (tree.view_owner == nullptr) return Status::aborted("");
    before = tree.view_owner;
  }
  bool fitted = true;
  auto tables = make_view(env_.version(tree.id), before->tables.get(), opened, env_.floor(*before, tree.dropped_at, now),
                          [&](const TablesView& view) { fitted = env_.fit_filters(tree, view); });
  ASSERT_MSG(tables.is_ok(), "a table that was opened for the edit");
  if (!fitted) env_.fit_filters_later(tree.id);
  MutexLock lock(*env_.state_mutex);
  auto view = std::make_shared<TreeView>(*tree.view_owner);
  view->tables = std::move(tables).value();
  view->memtables.resize(view->memtables.size() - flushed);
  tree.frozen.erase(tree.frozen.begin(), tree.frozen.begin() + static_cast<std::ptrdiff_t>(flushed));
  env_.publish(tree, std::move(view));
  return Status::ok();
}

CompactionEnv TableInstaller::compaction_env(std::shared_ptr<const TablesView> tables, const std::atomic<bool>* abort,
                                             OpenedTables* opened) const {
  CompactionEnv env;
  env.fs = env_.fs;
  env.dir = env_.dir;
  env.pool = env_.pool();
  env.new_file = env_.new_file;
  // Inputs are open already. Outputs are kept open for the view that will contain them.
  auto mutex = std::make_shared<Mutex>();
  env.open_table = [this, opened, mutex,
                    tables = std::move(tables)](const FileMeta& meta) -> Result<std::shared_ptr<TableReader>> {
    for (const RunView& run : tables->runs) {
      const int i = run.find(meta.stats.smallest);
      if (i < 0) continue;
      const OpenTable& table = *run.tables()[static_cast<std::size_t>(i)];
      if (table.meta->metadata_file == meta.metadata_file) return table.reader;
    }
    {
      MutexLock lock(*mutex);
      if (auto it = opened->find(meta.metadata_file); it != opened->end()) return it->second;
    }
    TRY_ASSIGN(reader, open(meta));
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

}  // namespace ebbtide
