// Maps databases to trees, and owns all trees. A tree has one of these states:
//
//   made      created by a database's first write, by FLUSHDB, or when the database opens
//   live      takes writes; SWAPDB may map another database to the tree
//   dropped   emptied by FLUSHDB; the manifest still names the tree, and deletes may still be pending in its files
//   retired   the manifest no longer names the tree; its files are removed with the last view that reads them
//
// Two mutexes guard the trees. Components that use trees take the mutexes in this order, and hold neither across I/O:
//
//   commit_mutex   the mapping and the settings of databases, the active memtable of each tree, and the seqs of the mapping
//   state_mutex    views, frozen memtables, policies and deadlines of all trees (db/trees/tree.h lists them)
//
// A reader takes neither mutex: it loads a tree's view inside the epoch. A new view replaces the old view, which is retired to
// the epoch.
//
// There are two copies of the mapping: the next batch uses the copy in this class; db/write/publication.h has the
// copy that readers use.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <engine/options.h>
#include "base/epoch.h"
#include "base/mutex.h"
#include "db/trees/lease_registry.h"
#include "db/trees/tree.h"
#include "version/version_edit.h"
#include "version/version_set.h"

namespace ebbtide {

/// Changes of the mapping that an edit adds to the manifest.
struct MappingChanges {
  SeqNum seq = 0;  ///< seq of the last operation on the mapping; 0 = nothing changed
  std::vector<TreePtr> dropped;
};

/// The registry of all trees. Thread-safe. "Live" and "dropped" are defined above.
class TreeRegistry {
 public:
  struct Env {
    const Clock* clock = nullptr;
    Epoch* epoch = nullptr;                      ///< old views are retired to this epoch
    std::function<Millis()> now;                 ///< returns the birth of a delete that is issued now
    std::function<SeqNum()> last_seq;            ///< returns the last assigned seq; called with the commit mutex held
    std::function<void(const TreePtr&)> frozen;  ///< called when a flush of the tree may be due; the commit mutex is held
    /// Starts an update of the tree's filters, after their settings have changed. The commit mutex is held.
    std::function<void(const TreePtr&)> filters_changed;
  };

  using IndexSettings = std::map<DatabaseId, TreeSettings>;  ///< key: number of an index tree

  /// `settings`: one element per database. `index_settings`: settings of index trees that do not use their database's settings.
  TreeRegistry(Env env, std::vector<TreeSettings> settings, IndexSettings index_settings = {});

  Mutex commit_mutex;
  Mutex state_mutex;  ///< may be taken while commit_mutex is held, not the other way round

  // --- The caller holds neither of the two mutexes.
  [[nodiscard]] std::vector<TreePtr> live_trees() EXCLUDES(commit_mutex);
  /// Returns a live or dropped tree; null: the tree is retired.
  [[nodiscard]] TreePtr tree_with(TreeId id) EXCLUDES(commit_mutex);
  /// Returns the tree of a database. Null: the database has no tree, or there is no such database.
  [[nodiscard]] TreePtr tree_of(DatabaseId database) EXCLUDES(commit_mutex);
  /// Returns the tree of each database and index tree that has one, by number.
  [[nodiscard]] std::vector<std::pair<DatabaseId, TreeId>> mapping() EXCLUDES(commit_mutex);
  /// Returns the stamp mode of the tree that the database gets next.
  [[nodiscard]] StampMode configured_stamp_mode(DatabaseId database) EXCLUDES(commit_mutex);
  /// Returns the name of the policy of the tree that the database gets next; "" if there is no such database.
  [[nodiscard]] std::string configured_policy(DatabaseId database) EXCLUDES(commit_mutex);
  /// Returns the tree's view; null: the tree is retired.
  [[nodiscard]] std::shared_ptr<const TreeView> view_of(const Tree& tree) EXCLUDES(state_mutex);
  /// Returns the tables of a live tree; null: there is no such tree, or it was dropped.
  [[nodiscard]] std::shared_ptr<const TablesView> live_tables(TreeId id) EXCLUDES(commit_mutex, state_mutex);
  /// Returns the tables of all live trees, in the order of the trees' ids.
  [[nodiscard]] std::vector<std::shared_ptr<const TablesView>> live_tables() EXCLUDES(commit_mutex, state_mutex);
  /// Returns a lease of the tree's current view, at the visible seq. Null: the tree is null or was dropped. Calls `visible_seq`
  /// and `now` with the state mutex held, so that the view has every operation up to the seq.
  [[nodiscard]] std::shared_ptr<Lease> lease(const TreePtr& tree, LeaseRegistry& leases,
                                             const std::function<SeqNum()>& visible_seq, const std::function<Millis()>& now)
      EXCLUDES(state_mutex);
  /// Returns the state of all live trees for pressure and statistics.
  [[nodiscard]] std::vector<TreeLoad> loads(const std::function<bool(TreeId)>& compactions_fail)
      EXCLUDES(commit_mutex, state_mutex);
  /// Returns the number of dropped trees.
  [[nodiscard]] std::uint64_t pending_drops() const { return pending_drops_.load(); }

  [[nodiscard]] DatabaseId databases() const { return databases_; }
  /// True if `number` is the number of a database, or of an index tree that a database may have. All methods that take the number
  /// of a database also take that of an index tree.
  [[nodiscard]] bool has_number(DatabaseId number) const {
    return number < databases_ || (owner_of(number) < databases_ && index_number(number) <= kMaxIndexTrees);
  }
  /// Returns the largest memtable_size of all databases.
  [[nodiscard]] std::uint64_t largest_memtable_size() const { return largest_memtable_size_.load(std::memory_order_relaxed); }

  // --- databases; called with the commit mutex held
  /// Returns the settings of a database or an index tree. An index tree has settings of its own, or else its database's settings
  /// without filters; options of the index override both. It always has the delete deadline of its database. Its stamp mode
  /// follows from the mode of the database's tree.
  [[nodiscard]] TreeSettings settings_of(DatabaseId database) const REQUIRES(commit_mutex);
  /// Returns the tree of a database; null: it has none.
  [[nodiscard]] const TreePtr& mapped(DatabaseId database) const REQUIRES(commit_mutex) {
    return database < databases_ ? mapping_[database] : mapped_index(database);
  }
  void map(DatabaseId database, TreePtr tree) REQUIRES(commit_mutex) { tree_at(database) = std::move(tree); }
  /// Exchanges the trees of two databases, but not their index trees. Each tree takes over the settings of its new database.
  void swap(DatabaseId a, DatabaseId b) REQUIRES(commit_mutex);
  /// Changes the settings of an index tree, or of a database and its index trees without settings of their own.
  void change_settings(DatabaseId database, const TreeSettings& settings) REQUIRES(commit_mutex);
  void set_index_options(DatabaseId tree, const IndexTreeOptions& options) REQUIRES(commit_mutex);
  /// Notes that an operation on the mapping has this seq.
  void note_mapping(SeqNum seq) REQUIRES(commit_mutex) { mapping_seq_ = seq; }
  /// Notes, at open, that the manifest has the mapping up to this seq.
  void start_mapping(SeqNum seq) REQUIRES(commit_mutex) { mapping_seq_ = committed_seq_ = seq; }
  /// True if the mapping has changes that the manifest lacks.
  [[nodiscard]] bool mapping_changed() const REQUIRES(commit_mutex) { return mapping_seq_ != committed_seq_; }
  /// Ends the opening: until now, trees had the deadline rules of the manifest; from now on, changes of settings change these
  /// rules.
  void settle() REQUIRES(commit_mutex) EXCLUDES(state_mutex);
  /// Removes all trees. Called when the database closes.
  void clear() REQUIRES(commit_mutex);

  // --- trees; called with the commit mutex held
  [[nodiscard]] const std::map<TreeId, TreePtr>& live() const REQUIRES(commit_mutex) { return live_; }
  [[nodiscard]] const std::vector<TreePtr>& dropped() const REQUIRES(commit_mutex) { return dropped_; }
  /// Returns a live tree; null if there is none with this id.
  [[nodiscard]] TreePtr live_tree(TreeId id) const REQUIRES(commit_mutex);
  /// Makes an empty live tree with the settings of the database. The caller maps the database to it later.
  TreePtr make(TreeId id, DatabaseId database, StampMode stamp) REQUIRES(commit_mutex) EXCLUDES(state_mutex);
  /// Drops a live tree and aborts its jobs. `time`: birth of the delete that drops the tree.
  void drop(TreePtr tree, Millis time) REQUIRES(commit_mutex) EXCLUDES(state_mutex);
  /// True if the live tree has no table, no frozen memtable, and an empty active memtable.
  [[nodiscard]] bool is_empty(const Tree& tree) REQUIRES(commit_mutex) EXCLUDES(state_mutex);

  // --- memtables; called with the commit mutex held
  /// True if the active memtable of the tree is full.
  [[nodiscard]] static bool is_full(const Tree& tree) {
    return tree.active->memory_bytes() >= tree.memtable_size || tree.active->records().size() >= kMaxMemTableRecords;
  }
  /// Notes that operations with these seqs go into the active memtable. No effect if the tree is not live.
  void mark_active(TreeId id, SeqNum first, SeqNum last) REQUIRES(commit_mutex);
  /// Freezes the active memtable unless it is empty, and calls Env::frozen for all frozen memtables. The new memtable is
  /// published before an operation gets a seq for it.
  void freeze(Tree& tree) REQUIRES(commit_mutex) EXCLUDES(state_mutex);
  /// Like freeze(), for an active memtable that is not empty, and without calling Env::frozen.
  void freeze_quietly(Tree& tree) REQUIRES(commit_mutex) EXCLUDES(state_mutex);
  /// Inserts the memtable of a staged batch, with operations of these seqs, between the active memtable and the frozen ones. A
  /// small memtable waits until the frozen memtables together have the size of a full memtable. Flushed alone, it would make a
  /// small run.
  void adopt(Tree& tree, std::shared_ptr<MemTable> memtable, SeqNum first, SeqNum last) REQUIRES(commit_mutex)
      EXCLUDES(state_mutex);

  // --- The caller holds the state mutex.
  /// Gives readers the view `view`; the old view is retired to the epoch.
  void publish(Tree& tree, std::shared_ptr<const TreeView> view) REQUIRES(state_mutex);

  // --- for the manifest; called without the two mutexes, with the manifest's mutex held
  /// Adds to `edit` the changes of the mapping that the manifest lacks: trees that were made, dropped, or moved to another
  /// database.
  MappingChanges collect_changes(const VersionSet& versions, VersionEdit* edit) EXCLUDES(commit_mutex);
  /// Notes that the manifest has the changes. The caller then retires the trees that they dropped.
  void changes_committed(const MappingChanges& changes) EXCLUDES(commit_mutex);
  /// Returns the smallest seq of an operation that may be only in the log after an edit. The edit has `changes`, and turns frozen
  /// memtables into tables. `flushed`: for each tree, how many of its oldest frozen memtables the edit turns into tables. All
  /// operations before the returned seq are in tables or in the manifest. Operations of a dropped tree are included as long as a
  /// crash could undo the drop.
  [[nodiscard]] SeqNum oldest_needed(const std::map<const Tree*, std::size_t>& flushed, const MappingChanges& changes)
      EXCLUDES(commit_mutex, state_mutex);
  /// Removes the view and the memtables from a dropped tree. They are freed when no reader has them.
  void retire(TreePtr tree) EXCLUDES(state_mutex);

  // --- delete deadlines
  /// True if a tree's DeadlineRule differs from the rule in the manifest.
  [[nodiscard]] bool deadlines_changed() const { return deadlines_changed_.load(); }
  void note_deadlines_changed() { deadlines_changed_ = true; }
  /// Adds to `edit` every rule that the manifest does not have, so that a changed deadline survives the process. The caller holds
  /// the manifest's mutex.
  void add_deadlines(const VersionSet& versions, VersionEdit* edit) EXCLUDES(commit_mutex, state_mutex);
  /// Forgets changes of the tree's deadline that affect only deletes born before `floor`.
  void forget_deadline_changes(Tree& tree, Millis floor) REQUIRES(state_mutex);
  /// Returns the deadline rules of dropped and retired trees whose files may still exist. Trees that were removed before the
  /// database was opened have no rule.
  [[nodiscard]] std::map<TreeId, DeadlineRule>& dropped_deadlines() REQUIRES(state_mutex) { return dropped_deadlines_; }

 private:
  // The time of a lookup grows with the number of a memtable's records, not with their bytes. So their number is limited, too.
  static constexpr std::size_t kMaxMemTableRecords = 4096;

  [[nodiscard]] const TreePtr& mapped_index(DatabaseId number) const REQUIRES(commit_mutex);
  TreePtr& tree_at(DatabaseId database) REQUIRES(commit_mutex) {
    return database < databases_ ? mapping_[database] : indexes_[database];
  }
  /// Returns all numbers that have a tree.
  [[nodiscard]] std::vector<DatabaseId> mapped_numbers() const REQUIRES(commit_mutex);
  /// Applies the changed settings of a database to its tree. `before`: the tree's settings before the change.
  void renew_settings(DatabaseId database, const TreeSettings& before) REQUIRES(commit_mutex);
  void adopt_settings(Tree& tree, DatabaseId database) REQUIRES(commit_mutex) EXCLUDES(state_mutex);
  void continue_deadlines(Tree& tree, Millis configured) REQUIRES(commit_mutex, state_mutex);
  void freeze_active(Tree& tree, TreeView* view) REQUIRES(commit_mutex, state_mutex);
  void report_frozen(const Tree& tree) REQUIRES(commit_mutex);

  const Env env_;
  const DatabaseId databases_;
  std::vector<TreeSettings> settings_ GUARDED_BY(commit_mutex);  // by database; they apply to the tree that the database has
  IndexSettings index_settings_ GUARDED_BY(commit_mutex);        // own settings of index trees
  std::map<DatabaseId, IndexTreeOptions> index_options_ GUARDED_BY(commit_mutex);
  std::vector<TreePtr> mapping_ GUARDED_BY(commit_mutex);           // by database
  std::map<DatabaseId, TreePtr> indexes_ GUARDED_BY(commit_mutex);  // index trees by number; those that were written to
  std::map<TreeId, TreePtr> live_ GUARDED_BY(commit_mutex);
  std::vector<TreePtr> dropped_ GUARDED_BY(commit_mutex);
  std::atomic<std::uint64_t> pending_drops_{0};  // dropped_.size()
  std::atomic<std::uint64_t> largest_memtable_size_;
  SeqNum mapping_seq_ GUARDED_BY(commit_mutex) = 0;    // seq of the last operation on the mapping
  SeqNum committed_seq_ GUARDED_BY(commit_mutex) = 0;  // seq of the last operation on the mapping that the manifest has
  bool settled_ GUARDED_BY(commit_mutex) = false;      // true after settle()
  std::map<TreeId, DeadlineRule> dropped_deadlines_ GUARDED_BY(state_mutex);  // deadline rules by dropped or retired tree
  std::atomic<bool> deadlines_changed_{false};
};

}  // namespace ebbtide
