// All trees of the database: which database has which, and what each consists of.
//
//   made      by a database's first write, by FLUSHDB, or when the database opens
//   live      takes writes; SWAPDB may give it to another database
//   dropped   by FLUSHDB; the manifest still names it, and deletes may still be pending in its files
//   retired   the manifest does not name it any more; its files are removed with the last view that reads them
//
// Two mutexes guard all of it. Components that use trees take them in this order, and hold neither across I/O:
//
//   commit_mutex   the mapping and the settings of databases, the active memtable of each tree, seqs of the mapping
//   state_mutex    views, frozen memtables, policies and deadlines of all trees (db/trees/tree.h lists them)
//
// A reader takes neither: it loads a tree's view under the epoch. A new view replaces the old one, which is retired to the epoch.
//
// The mapping exists twice. This is what the next batch sees; db/write/publication.h has what readers see.
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
#include "db/trees/tree.h"
#include "version/version_edit.h"
#include "version/version_set.h"

namespace ebbtide {

/// Changes of the mapping on their way to the manifest.
struct MappingChanges {
  SeqNum seq = 0;  ///< of the last operation on the mapping; 0 = nothing changed
  std::vector<TreePtr> dropped;
};

/// Thread-safe. "Live" and "dropped" are as above.
class TreeRegistry {
 public:
  struct Env {
    const Clock* clock = nullptr;
    Epoch* epoch = nullptr;                               ///< old views are retired to it
    std::uint64_t memtable_size = 0;                      ///< bytes at which a memtable is full
    std::function<Millis()> now;                          ///< engine time, as births have it
    std::function<SeqNum()> last_seq;                     ///< the last seq that a batch was given; the commit mutex is held
    std::function<void(const TreePtr&)> frozen;           ///< a flush of the tree may be due; the commit mutex is held
    std::function<void(const TreePtr&)> filters_changed;  ///< other filter settings hold for the tree; the commit mutex is held
  };

  /// `settings`: by database; as many as there are databases.
  TreeRegistry(Env env, std::vector<TreeSettings> settings);

  Mutex commit_mutex;
  Mutex state_mutex;  ///< may be taken while commit_mutex is held, not the other way round

  // --- without the mutexes
  [[nodiscard]] std::vector<TreePtr> live_trees() EXCLUDES(commit_mutex);
  /// A live or dropped tree; null: it is retired.
  [[nodiscard]] TreePtr tree_with(TreeId id) EXCLUDES(commit_mutex);
  /// Null: the database has no tree, or there is no such database.
  [[nodiscard]] TreePtr tree_of(DatabaseId database) EXCLUDES(commit_mutex);
  /// The stamp mode of the tree that the database gets next.
  [[nodiscard]] StampMode configured_stamp_mode(DatabaseId database) EXCLUDES(commit_mutex);
  /// The policy's name of the tree that the database gets next; "" if there is no such database.
  [[nodiscard]] std::string configured_policy(DatabaseId database) EXCLUDES(commit_mutex);
  /// The tree's view; null: the tree is retired.
  [[nodiscard]] std::shared_ptr<const TreeView> view_of(const Tree& tree) EXCLUDES(state_mutex);
  /// All live trees as pressure and statistics see them.
  [[nodiscard]] std::vector<TreeLoad> loads(const std::function<bool(TreeId)>& compactions_fail)
      EXCLUDES(commit_mutex, state_mutex);
  /// Number of dropped trees.
  [[nodiscard]] std::uint64_t pending_drops() const { return pending_drops_.load(); }

  [[nodiscard]] DatabaseId databases() const { return databases_; }

  // --- with the commit mutex: databases
  [[nodiscard]] const TreeSettings& settings_of(DatabaseId database) const REQUIRES(commit_mutex) { return settings_[database]; }
  /// Null: the database has none.
  [[nodiscard]] const TreePtr& mapped(DatabaseId database) const REQUIRES(commit_mutex) { return mapping_[database]; }
  void map(DatabaseId database, TreePtr tree) REQUIRES(commit_mutex) { mapping_[database] = std::move(tree); }
  /// The databases exchange their trees. Each tree takes over the settings of its new database.
  void swap(DatabaseId a, DatabaseId b) REQUIRES(commit_mutex);
  void change_settings(DatabaseId database, const TreeSettings& settings) REQUIRES(commit_mutex);
  /// An operation on the mapping got this seq.
  void note_mapping(SeqNum seq) REQUIRES(commit_mutex) { mapping_seq_ = seq; }
  /// The manifest has the mapping up to this seq.
  void start_mapping(SeqNum seq) REQUIRES(commit_mutex) { mapping_seq_ = committed_seq_ = seq; }
  /// True if the manifest has an older mapping.
  [[nodiscard]] bool mapping_changed() const REQUIRES(commit_mutex) { return mapping_seq_ != committed_seq_; }
  /// Opening is done: deadlines continue as the manifest has them, and settings take effect on them from now on.
  void settle() REQUIRES(commit_mutex) EXCLUDES(state_mutex);
  /// Removes all trees, when the database closes.
  void clear() REQUIRES(commit_mutex);

  // --- with the commit mutex: trees
  [[nodiscard]] const std::map<TreeId, TreePtr>& live() const REQUIRES(commit_mutex) { return live_; }
  [[nodiscard]] const std::vector<TreePtr>& dropped() const REQUIRES(commit_mutex) { return dropped_; }
  /// A live tree; null if there is none.
  [[nodiscard]] TreePtr live_tree(TreeId id) const REQUIRES(commit_mutex);
  /// Makes an empty live tree with the settings of the database, to which the caller maps it later.
  TreePtr make(TreeId id, DatabaseId database, StampMode stamp) REQUIRES(commit_mutex) EXCLUDES(state_mutex);
  /// `time`: birth of the delete that drops the live tree. Its jobs are aborted.
  void drop(TreePtr tree, Millis time) REQUIRES(commit_mutex) EXCLUDES(state_mutex);
  /// True if the live tree has no table, no frozen memtable, and an empty active one.
  [[nodiscard]] bool is_empty(const Tree& tree) REQUIRES(commit_mutex) EXCLUDES(state_mutex);

  // --- with the commit mutex: memtables
  [[nodiscard]] bool is_full(const MemTable& memtable) const {
    return memtable.memory_bytes() >= env_.memtable_size || memtable.records().size() >= kMaxMemTableRecords;
  }
  /// Operations with these seqs go into the active memtable. Nothing if the tree is not live.
  void mark_active(TreeId id, SeqNum first, SeqNum last) REQUIRES(commit_mutex);
  /// Freezes the active memtable unless it is empty, and reports all frozen ones to Env::frozen. The new memtable is published before
  /// anything is sequenced into it.
  void freeze(Tree& tree) REQUIRES(commit_mutex) EXCLUDES(state_mutex);
  /// As freeze(), for a memtable that is not empty, and without a report.
  void freeze_quietly(Tree& tree) REQUIRES(commit_mutex) EXCLUDES(state_mutex);
  /// Puts a memtable of a staged batch, with operations of these seqs, between the active memtable and the frozen ones. A small one
  /// rests until several together fill a memtable: a flush of its own would leave a small run to merge.
  void adopt(Tree& tree, std::shared_ptr<MemTable> memtable, SeqNum first, SeqNum last) REQUIRES(commit_mutex)
      EXCLUDES(state_mutex);

  // --- with the state mutex
  /// Readers see `view` from now on.
  void publish(Tree& tree, std::shared_ptr<const TreeView> view) REQUIRES(state_mutex);

  // --- for the manifest; without the mutexes. The caller holds the manifest's mutex.
  /// Adds to `edit` the changes of the mapping that the manifest lacks: trees that were made, dropped, or moved to another
  /// database.
  MappingChanges collect_changes(const VersionSet& versions, VersionEdit* edit) EXCLUDES(commit_mutex);
  /// The manifest has the changes: their dropped trees are to be retired.
  void changes_committed(const MappingChanges& changes) EXCLUDES(commit_mutex);
  /// The smallest seq that only the log has, once the manifest has `changes` and each tree's oldest frozen memtables are tables, as
  /// many as `flushed` says. Everything before is in tables or in the manifest. A dropped tree counts while a crash could take its
  /// dropping back.
  [[nodiscard]] SeqNum oldest_needed(const std::map<const Tree*, std::size_t>& flushed, const MappingChanges& changes)
      EXCLUDES(commit_mutex, state_mutex);
  /// Takes the view and the memtables from a dropped tree. They are freed once no reader has them.
  void retire(TreePtr tree) EXCLUDES(state_mutex);

  // --- delete deadlines
  /// True if a tree's DeadlineRule is not what the manifest has.
  [[nodiscard]] bool deadlines_changed() const { return deadlines_changed_.load(); }
  void note_deadlines_changed() { deadlines_changed_ = true; }
  /// Adds to `edit` every rule that the manifest does not have. A change of a deadline must not be forgotten with the process. The
  /// caller holds the manifest's mutex.
  void add_deadlines(const VersionSet& versions, VersionEdit* edit) EXCLUDES(commit_mutex, state_mutex);
  /// Forgets changes of the tree's deadline that no delete born at `floor` or later waits for.
  void forget_deadline_changes(Tree& tree, Millis floor) REQUIRES(state_mutex);
  /// Rules of dropped and retired trees that may have left something. Trees that were removed before the start have none.
  [[nodiscard]] std::map<TreeId, DeadlineRule>& dropped_deadlines() REQUIRES(state_mutex) { return dropped_deadlines_; }

 private:
  // A lookup among records takes time in proportion to their number, not to their bytes: the number has a limit of its own.
  static constexpr std::size_t kMaxMemTableRecords = 4096;

  void adopt_settings(Tree& tree, DatabaseId database) REQUIRES(commit_mutex) EXCLUDES(state_mutex);
  void continue_deadlines(Tree& tree, Millis configured) REQUIRES(commit_mutex, state_mutex);
  void freeze_active(Tree& tree, TreeView* view) REQUIRES(commit_mutex, state_mutex);
  void report_frozen(const Tree& tree) REQUIRES(commit_mutex);

  const Env env_;
  const DatabaseId databases_;
  std::vector<TreeSettings> settings_ GUARDED_BY(commit_mutex);  // by database: for whichever tree it has
  std::vector<TreePtr> mapping_ GUARDED_BY(commit_mutex);        // by database
  std::map<TreeId, TreePtr> live_ GUARDED_BY(commit_mutex);
  std::vector<TreePtr> dropped_ GUARDED_BY(commit_mutex);
  std::atomic<std::uint64_t> pending_drops_{0};                               // dropped_.size()
  SeqNum mapping_seq_ GUARDED_BY(commit_mutex) = 0;                           // last operation on the mapping
  SeqNum committed_seq_ GUARDED_BY(commit_mutex) = 0;                         // the same, as the manifest has it
  bool settled_ GUARDED_BY(commit_mutex) = false;                             // settle() was called
  std::map<TreeId, DeadlineRule> dropped_deadlines_ GUARDED_BY(state_mutex);  // see dropped_deadlines()
  std::atomic<bool> deadlines_changed_{false};
};

}  // namespace ebbtide
