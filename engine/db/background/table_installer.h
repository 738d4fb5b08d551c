// Installs new tables for readers.
//
// After an edit of the manifest a tree has a new version. The new view takes remaining tables from the current view; the job that wrote new
// tables has opened them. The new view takes the place of the old one in one step. Tables that left the tree are noted in the purge ledger
// and marked as obsolete: the last view that has one hands its files over for removal (db/background/obsolete_files.h).
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

/// Thread-safe.
class TableInstaller {
 public:
  using OpenedTables = std::map<FileNum, std::shared_ptr<TableReader>>;  ///< by metadata file

  struct Env {
    FileSystem* fs = nullptr;
    std::string dir{};
    bool direct_io = false;
    OpenFiles* open_files = nullptr;
    DamageSink* damage = nullptr;
    const ObsoleteSink* sink = nullptr;
    PurgeLedger* ledger = nullptr;
    Mutex* state_mutex = nullptr;  ///< guards trees (db/trees/tree.h)
    std::function<BlockCache*()> cache{};
    std::function<BackgroundPool*()> pool{};
    std::function<FileNum()> new_file{};
    std::function<VersionPtr(TreeId)> version{};  ///< by the manifest
    std::function<Millis()> fence{};              ///< engine time; every earlier delete can be seen when it returns
    std::function<Millis(const TreeView&, Millis dropped_at, Millis now)>
        floor{};  ///< oldest pending delete; `now` if there is none
    std::function<bool(Tree&, const TablesView&)>
        fit_filters{};  ///< loads and drops filter slices; false: some are left for the next call
    std::function<void(TreeId)> fit_filters_later{};
    std::function<void(Tree&, std::shared_ptr<const TreeView>)> publish{};  ///< the state mutex is held
  };

  explicit TableInstaller(Env env) : env_(std::move(env)) {}

  Result<std::shared_ptr<TableReader>> open(const FileMeta& meta) const;
  /// Opens a placeholder: every read returns `why`.
  [[nodiscard]] std::shared_ptr<TableReader> open_unreadable(const FileMeta& meta, Status why) const;

  /// Makes a view of `version`. It takes open tables from `old`, which may be null, and from `opened`, and opens the others. `fit` adapts
  /// the filters. Tables of `old` that leave hold bytes of deletes born at `floor` or later.
  Result<std::shared_ptr<const TablesView>> make_view(const VersionPtr& version, const TablesView* old,
                                                      const OpenedTables& opened, Millis floor,
                                                      const std::function<void(const TablesView&)>& fit) const;
  /// Gives readers the tree's tables by the manifest, and removes its `flushed` oldest frozen memtables in the same step, so that no view
  /// has both or neither. The caller holds the manifest mutex. kAborted: the tree was dropped.
  Status install(Tree& tree, const OpenedTables& opened, std::size_t flushed) const EXCLUDES(*env_.state_mutex);
  /// Removes all tables of a dropped tree.
  void retire(const TablesView& tables, Millis floor) const;

  /// The environment of a job on `tables`. It keeps `tables`, so that none of their files is unlinked even if other jobs replace them.
  /// Outputs go to `opened`; `abort` and `opened` outlive it.
  [[nodiscard]] CompactionEnv compaction_env(std::shared_ptr<const TablesView> tables, const std::atomic<bool>* abort,
                                             OpenedTables* opened) const;

 private:
  void leave(const OpenTable& table, TreeId tree, Millis floor, bool with_data) const;

  const Env env_;
};

}  // namespace ebbtide
