// Installs new tables for readers.
//
// After an edit of the manifest a tree has a new version. The new view takes the remaining tables from the current view; the job
// that wrote new tables has opened them. The new view replaces the old view in one step. Tables that left the tree are noted in
// the purge ledger and marked as obsolete. When the last view with such a table ends, the table's files are queued for removal
// (db/background/obsolete_files.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <engine/result.h>
#include "base/background_pool.h"
#include "base/mutex.h"
#include "compaction/executor.h"
#include "db/purge/purge_ledger.h"
#include "db/trees/tree.h"
#include "io/file_system.h"

namespace ebbtide {

/// Installs the tables of all trees. Thread-safe.
class TableInstaller {
 public:
  using OpenedTables = std::map<FileNum, std::shared_ptr<TableReader>>;  ///< key: number of the metadata file

  struct Env {
    FileSystem* fs = nullptr;
    std::string dir{};
    bool direct_io = false;
    OpenFiles* open_files = nullptr;
    IndexCache* indexes = nullptr;
    DamageSink* damage = nullptr;
    const ObsoleteSink* sink = nullptr;
    PurgeLedger* ledger = nullptr;
    Mutex* state_mutex = nullptr;  ///< guards trees (db/trees/tree.h)
    std::function<BlockCache*()> cache{};
    std::function<BackgroundPool*()> pool{};
    std::function<FileNum()> new_file{};
    std::function<VersionPtr(TreeId)> version{};  ///< returns the tree's version in the manifest
    std::function<Millis()> fence{};              ///< returns an engine time after every delete born before it is visible
    /// Returns the birth of the oldest pending delete; `now` if there is none.
    std::function<Millis(const TreeView&, Millis dropped_at, Millis now)> floor{};
    /// Loads and drops filter slices. Returns false if the next call must load further slices.
    std::function<bool(Tree&, TablesView&)> fit_filters{};
    std::function<void(TreeId)> fit_filters_later{};
    /// Gives readers the view. Called with the state mutex held.
    std::function<void(Tree&, std::shared_ptr<const TreeView>)> publish{};
  };

  explicit TableInstaller(Env env) : env_(std::move(env)) {}

  Result<std::shared_ptr<TableReader>> open(const FileMeta& meta) const;
  /// Opens a placeholder for a table: every read returns `why`.
  [[nodiscard]] std::shared_ptr<TableReader> open_unreadable(const FileMeta& meta, Status why) const;

  /// Makes a view of `version`. Takes open tables from `old` and from `opened`, and opens all other tables. When the database
  /// opens, `old` is null, and these other tables are opened without being read (TableReader::lazy). `fit` fits the filters. The
  /// purge ledger gets the tables of `old` that `version` lacks, as files with bytes of deletes born at `floor` or later.
  Result<std::shared_ptr<const TablesView>> make_view(const VersionPtr& version, const TablesView* old,
                                                      const OpenedTables& opened, Millis floor,
                                                      const std::function<void(TablesView&)>& fit) const;
  /// Gives readers the tree's tables in the manifest. In the same step, removes the tree's `flushed` oldest frozen memtables:
  /// each view has every entry either in a memtable or in a table. Returns the new tables. The caller holds the manifest mutex.
  /// kAborted: the tree was dropped.
  Result<std::shared_ptr<const TablesView>> install(Tree& tree, const OpenedTables& opened, std::size_t flushed) const
      EXCLUDES(*env_.state_mutex);
  /// Like install(), while the log is replayed: the edit removes no table, there are no readers, and the fence does not work yet.
  void install_replayed(Tree& tree, const OpenedTables& opened, std::size_t flushed) const EXCLUDES(*env_.state_mutex);
  /// Marks all tables of a dropped tree as obsolete.
  void retire(const TablesView& tables, Millis floor) const;

  /// Returns the environment of a job on `tables`. The environment holds `tables`, so no file of these tables is unlinked even if
  /// other jobs replace it. `inputs`: the files that the job will open; the environment finds other files more slowly. Readers of
  /// output tables are added to `opened`. `abort` and `opened` must outlive the environment.
  [[nodiscard]] CompactionEnv compaction_env(std::shared_ptr<const TablesView> tables, const std::vector<PlanInput>& inputs,
                                             const std::atomic<bool>* abort, OpenedTables* opened) const;

 private:
  std::shared_ptr<const TablesView> replace(Tree& tree, const TreeView& before, const OpenedTables& opened, Millis floor,
                                            std::size_t flushed, bool* fitted) const EXCLUDES(*env_.state_mutex);
  [[nodiscard]] TableReaderOptions reader_options() const;
  class Changed;
  Result<TableList::ChunkPtr> make_chunk(const FileList::Chunk& files, const OpenedTables& opened, Changed* changed) const;
  void leave(const OpenTable& table, TreeId tree, Millis floor, bool with_data) const;

  const Env env_;
};

}  // namespace ebbtide
