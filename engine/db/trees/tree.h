// One tree: all its state except its files.
//
// The database's mapping owns a tree as a TreePtr. A tree that is dropped is retired to the epoch: readers may still load its view.
// Two mutexes of the database guard most members. The commit mutex guards the active memtable; the state mutex guards everything
// that depends on views and settings. Comments name the mutex of each member, since the compiler's annotations do not work across
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
  std::atomic<const TreeView*> view{nullptr};  ///< readers load it, under the epoch
  const std::shared_ptr<std::atomic<bool>> recorded = std::make_shared<std::atomic<bool>>(false);  ///< TreeView::recorded
  const std::shared_ptr<TreeLookups> lookups = std::make_shared<TreeLookups>();
  std::atomic<bool> dropped{false};  ///< running jobs give up, and no result is installed
  /// Deletes born by then are overdue, even without a deadline: PURGE.NOW asked for them. Only grows.
  std::atomic<Millis> purge_before{0};
  std::atomic<Millis> dropped_at{0};  ///< birth of the delete that dropped the tree; 0 = not dropped

  // --- guarded by the commit mutex
  MemTable* active = nullptr;
  SeqNum active_first_seq = 0, active_last_seq = 0;  ///< of the active memtable; 0 = empty

  // --- guarded by the state mutex
  std::shared_ptr<const TreeView> view_owner;                 ///< of `view`; null once the tree is dropped
  std::vector<FrozenMemTable> frozen;                         ///< oldest first
  std::shared_ptr<const int> work = std::make_shared<int>();  ///< held by every job that writes files for the tree
  TreeSettings settings;
  std::shared_ptr<const Policy> policy;
  int inherited_runs = 0;  ///< runs of the newest level above the slowdown limit, left by an earlier policy; never grows
  Arrivals arrivals = all_arrive();   ///< as last measured
  LookupsByLevel lookups_measured{};  ///< total lookups at the last update of `arrivals`
  TileSize tile_size;                 ///< used if pages_per_tile is measured
  bool frozen_rest = false;           ///< small frozen memtables of staged batches wait for the next flush
  bool flush_queued = false;
  bool flush_waits = false;    ///< the flush waits for merges of the flush before; the end of a job queues it again
  bool flush_hurries = false;  ///< the flush is urgent (deadline, log or memory), and waits for no merge
  DeadlineRule deadlines;

  // --- own synchronization
  std::atomic<bool> filter_fit_queued{false};
  FlushRate flush_rate;
  JobRegistry jobs;
  std::atomic<Millis> margin{0};  ///< how long before a deadline its work must be done; set by the deadline tracker
  DeadlineBudget budget;          ///< the deadline tracker sets its rate

  FlushSize flush_size;  ///< guarded by the flush mutex

  /// The compaction debt, and the inputs from which it was computed.
  struct Debt {
    VersionPtr version;
    std::shared_ptr<const Policy> policy;
    std::uint64_t file_size = 0;
    std::uint64_t debt_bytes = 0, data_bytes = 0;
  };
  Debt debt;  ///< used only where pressure is measured, one measurement at a time
};
using TreePtr = std::shared_ptr<Tree>;

/// A tree at one moment, for pressure and statistics.
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
