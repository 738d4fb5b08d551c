// One tree: all its state but its files, and what other parts need of it at one moment.
//
// The database's mapping owns a tree as a TreePtr. A tree that is dropped is retired to the epoch: readers may still load its view.
// Two mutexes of the database guard most members. The commit mutex guards the active memtable, the state mutex everything that follows
// from views and settings. "Guarded by" names them where a member is declared; the annotations of the compiler cannot reach across
// objects.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include <engine/options.h>
#include "compaction/job_registry.h"
#include "db/trees/deadline_budget.h"
#include "db/trees/flush_rate.h"
#include "db/trees/tree_lookups.h"
#include "db/trees/tree_view.h"
#include "deletes/deadline.h"
#include "deletes/tile_size.h"
#include "memtable/memtable.h"
#include "policy/policy.h"
#include "version/flush_size.h"
#include "version/version.h"

namespace ebbtide {

/// A memtable that takes no more writes, and the seqs of its operations.
struct FrozenMemTable {
  std::shared_ptr<MemTable> memtable;
  SeqNum first_seq = 0, last_seq = 0;
};

struct Tree {
  /// `clock` outlives the tree.
  explicit Tree(const Clock& clock) : budget(clock) {}

  TreeId id = kNoTree;
  StampMode stamp = StampMode::kWriteTime;
  std::atomic<const TreeView*> view{nullptr};  ///< what readers load, under the epoch
  const std::shared_ptr<std::atomic<bool>> recorded = std::make_shared<std::atomic<bool>>(false);  ///< TreeView::recorded
  const std::shared_ptr<TreeLookups> lookups = std::make_shared<TreeLookups>();
  std::atomic<bool> dropped{false};  ///< running jobs give up, and no result is installed
  /// Deletes born by then are overdue, even without a deadline: PURGE.NOW asked for them. Only grows.
  std::atomic<Millis> purge_before{0};
  std::atomic<Millis> dropped_at{0};  ///< birth of the delete that dropped the tree; 0 = the tree lives

  // --- guarded by the commit mutex
  MemTable* active = nullptr;
  SeqNum active_first_seq = 0, active_last_seq = 0;  ///< of the active memtable; 0 = empty

  // --- guarded by the state mutex
  std::shared_ptr<const TreeView> view_owner;                 ///< of `view`; null once the tree is dropped
  std::vector<FrozenMemTable> frozen;                         ///< oldest first
  std::shared_ptr<const int> work = std::make_shared<int>();  ///< held by every job that writes files for the tree
  TreeSettings settings;
  std::shared_ptr<const Policy> policy;
  int inherited_runs = 0;  ///< runs of the newest level, above the slowdown limit, that the policy before left; only shrinks
  Arrivals arrivals = all_arrive();   ///< as measured so far
  LookupsByLevel lookups_measured{};  ///< the lookups that `arrivals` comes from, since the tree was opened
  TileSize tile_size;                 ///< used if the settings leave it to measurement
  bool frozen_rest = false;           ///< frozen memtables of staged batches wait, not full, for the next flush of a memtable
  bool flush_queued = false;
  bool flush_waits = false;    ///< for the merges of the flush before; the end of a job queues it again
  bool flush_hurries = false;  ///< memtables are flushed for another reason than being full, and wait for no merge
  DeadlineRule deadlines;

  // --- own synchronization
  std::atomic<bool> filter_fit_queued{false};
  FlushRate flush_rate;
  JobRegistry jobs;
  std::atomic<Millis> margin{0};  ///< how long before a deadline its work is to be done; the deadline tracker sets it
  DeadlineBudget budget;          ///< the deadline tracker sets its rate

  FlushSize flush_size;  ///< guarded by the flush mutex

  /// Bytes that compactions have pending, and what they were computed from.
  struct Debt {
    VersionPtr version;
    std::shared_ptr<const Policy> policy;
    std::uint64_t file_size = 0;
    std::uint64_t debt_bytes = 0, data_bytes = 0;
  };
  Debt debt;  ///< used only where pressure is measured, one measurement at a time
};
using TreePtr = std::shared_ptr<Tree>;

/// A tree at one moment, as pressure and statistics see it.
struct TreeLoad {
  TreePtr tree;
  std::shared_ptr<const TreeView> view;
  std::shared_ptr<const Policy> policy;
  std::uint64_t file_size = 0;
  std::uint64_t delete_io_budget = 0;
  bool compactions_fail = false;
  int inherited_runs = 0;
  bool has_deadlines = false;
  [[nodiscard]] std::uint64_t memtable_bytes() const;
  [[nodiscard]] std::uint64_t uncharged_bytes() const;  ///< of memtables, without values that the memory account charges
  [[nodiscard]] std::uint64_t frozen_bytes() const;     ///< of memtables that wait to be flushed
};

}  // namespace ebbtide
