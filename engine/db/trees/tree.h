// One tree: all its state except its files.
//
// The database's mapping owns a tree as a TreePtr. A dropped tree is retired to the epoch, since readers may still load its view.
// Two mutexes of the database guard most members. The commit mutex guards the active memtable; the state mutex guards the members
// that depend on views and settings. Comments name the mutex of each member, since the compiler's annotations do not work across
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
#include "deletes/reaped.h"
#include "deletes/tile_size.h"
#include "memtable/memtable.h"
#include "policy/policy.h"
#include "version/flush_size.h"
#include "version/version.h"

namespace ebbtide {

/// A memtable that takes no more writes, and the first and last seq of its operations.
struct FrozenMemTable {
  std::shared_ptr<MemTable> memtable;
  SeqNum first_seq = 0, last_seq = 0;
};

struct Tree {
  /// `clock` outlives the tree.
  explicit Tree(const Clock& clock) : budget(clock) {}

  TreeId id = kNoTree;
  StampMode stamp = StampMode::kWriteTime;
  std::atomic<const TreeView*> view{nullptr};  ///< the newest view; readers load the pointer inside the epoch
  const std::shared_ptr<std::atomic<bool>> recorded = std::make_shared<std::atomic<bool>>(false);  ///< TreeView::recorded
  const std::shared_ptr<TreeLookups> lookups = std::make_shared<TreeLookups>();
  std::atomic<bool> dropped{false};  ///< once true, running jobs stop, and no result is installed
  /// Deletes born by this time are overdue, even without a deadline, because of PURGE.NOW. Only grows.
  std::atomic<Millis> purge_before{0};
  /// The reaper's progress (see reaped()); only grows.
  std::atomic<Millis> reaped_expiry{0};
  std::atomic<SeqNum> reaped_record{0};
  [[nodiscard]] Reaped reaped() const {
    return {reaped_expiry.load(std::memory_order_acquire), reaped_record.load(std::memory_order_acquire)};
  }
  std::atomic<Millis> dropped_at{0};  ///< engine time of the delete that dropped the tree; 0 = not dropped

  // --- guarded by the commit mutex
  MemTable* active = nullptr;
  std::uint64_t memtable_size = 0;                   ///< copy of settings.memtable_size
  SeqNum active_first_seq = 0, active_last_seq = 0;  ///< seqs of the active memtable's operations; 0 = it is empty

  // --- guarded by the state mutex
  std::shared_ptr<const TreeView> view_owner;  ///< owner of `view`; null once the tree is retired
  std::vector<FrozenMemTable> frozen;          ///< oldest first
  /// Every job that writes files for the tree holds a reference: its count shows whether such jobs run.
  std::shared_ptr<const int> work = std::make_shared<int>();
  TreeSettings settings;
  std::shared_ptr<const Policy> policy;
  int inherited_runs = 0;  ///< surplus runs of level 0, above the slowdown limit, that an earlier policy left; never grows
  Arrivals arrivals = all_arrive();   ///< last measurement; before any measurement, every lookup is assumed to reach every run
  LookupsByLevel lookups_measured{};  ///< all lookups up to the last update of `arrivals`
  TileSize tile_size;                 ///< pages per tile (h) by measurement; used if the setting pages_per_tile is 0
  bool frozen_rest = false;  ///< true while small frozen memtables of staged batches wait to be flushed with later memtables
  bool flush_queued = false;
  bool flushing = false;       ///< true while a flush of the tree runs, perhaps together with other trees
  bool flush_waits = false;    ///< true if a flush waits for a merge that belongs to the previous flush
  bool flush_hurries = false;  ///< true if the flush is urgent (deadline, log or memory) and waits for no merge
  DeadlineRule deadlines;

  // --- own synchronization
  std::atomic<bool> filter_fit_queued{false};
  FlushRate flush_rate;
  JobRegistry jobs;
  std::atomic<Millis> margin{0};  ///< ms before a deadline at which merges for it must be done; set by the deadline tracker
  DeadlineBudget budget;          ///< I/O budget of merges for deadlines; the deadline tracker sets the rate

  FlushSize flush_size;  ///< only the running flush of the tree uses this member

  /// The compaction debt, and the values from which it was computed.
  struct Debt {
    VersionPtr version;
    std::shared_ptr<const Policy> policy;
    std::uint64_t file_size = 0, memtable_size = 0;
    std::uint64_t debt_bytes = 0, data_bytes = 0;
    double level0_bytes = 0;  ///< capacity of level 0
  };
  Debt debt;  ///< only the measurement of pressure uses this member; one measurement runs at a time
};
using TreePtr = std::shared_ptr<Tree>;

/// The state of a tree at one moment, for pressure and statistics.
struct TreeLoad {
  TreePtr tree;
  std::shared_ptr<const TreeView> view;
  std::shared_ptr<const Policy> policy;
  std::uint64_t file_size = 0, memtable_size = 0;
  std::uint64_t delete_io_budget = 0;
  bool compactions_fail = false;
  int inherited_runs = 0;
  bool has_deadlines = false;
  Millis shortest_deadline = 0;  ///< DeadlineRule::shortest()
  [[nodiscard]] std::uint64_t memtable_bytes() const;
  [[nodiscard]] std::uint64_t uncharged_bytes() const;  ///< bytes of memtables, without values that the memory account charges
  [[nodiscard]] std::uint64_t frozen_bytes() const;     ///< bytes of memtables that wait to be flushed
};

}  // namespace ebbtide
