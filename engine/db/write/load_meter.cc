#include "db/write/load_meter.h"

#include <algorithm>

#include "tree/frozen.h"

namespace ebbtide {

WriteLoad LoadMeter::measure() {
  const std::vector<TreeLoad> loads = env_.loads();
  const std::uint64_t empty = env_.empty_memtable_bytes();
  WriteLoad out{.trees = {},
                .merge_bytes_per_ms = env_.merge_bytes_per_ms(),
                .deadline_permille = env_.deadline_permille(),
                .memtable_size = env_.memtable_size(),
                .memory_budget = env_.memory_budget(),
                .charged_bytes = env_.charged_bytes(),
                .memory = {}};
  const std::uint64_t small = small_memtable_bytes(out.memory_budget, empty, loads.size());
  for (const TreeLoad& load : loads) {
    const std::uint64_t active_bytes = load.view->memtables.front()->memory_bytes();
    out.memory.kept += active_bytes > small ? empty : active_bytes;
    out.memory.memtables += load.memtable_bytes();
    out.memory.uncharged += load.uncharged_bytes();
    out.memory.frozen += load.frozen_bytes();
    out.memory.tables += load.view->tables->memory_bytes;
    if (env_.compactions_paused()) continue;
    const Tree::Debt& debt = debt_of(load);
    out.trees.push_back({.runs = load.view->tables->level0_runs,
                         .inherited_runs = load.inherited_runs,
                         .slowdown_runs = load.policy->slowdown_runs(),
                         .stop_runs = load.policy->stop_runs(),
                         .compactions_fail = load.compactions_fail,
                         .pending_bytes = debt.debt_bytes,
                         .data_bytes = debt.data_bytes,
                         .level0_bytes = debt.level0_bytes});
  }
  if (env_.index_bytes) out.memory.indexes = env_.index_bytes();
  const std::uint64_t left = left_bytes(loads);
  out.memory.memtables += left;
  out.memory.uncharged += left;
  return out;
}

// Returns the bytes of memtables that were flushed but are still in memory. A flush removes its memtables from the tree, but
// their memory is freed only with the last view of the tree, which may be a long read. Without this sum, the memory would
// count as free while it is still used.
std::uint64_t LoadMeter::left_bytes(const std::vector<TreeLoad>& loads) {
  std::vector<std::shared_ptr<const MemTable>> present;
  for (const TreeLoad& load : loads) present.insert(present.end(), load.view->memtables.begin(), load.view->memtables.end());
  std::sort(present.begin(), present.end());
  std::uint64_t bytes = 0;
  std::vector<std::weak_ptr<const MemTable>> seen(present.begin(), present.end());
  for (const auto& earlier : seen_) {
    const std::shared_ptr<const MemTable> memtable = earlier.lock();
    if (memtable == nullptr || std::binary_search(present.begin(), present.end(), memtable)) continue;
    const std::uint64_t charged = memtable->charged_bytes();
    bytes += memtable->memory_bytes() - charged;
    seen.push_back(earlier);
  }
  seen_ = std::move(seen);
  return bytes;
}

// Returns the tree's compaction debt. Computes the debt only if the tree has changed: every measurement, ten times a second,
// would be too often.
const Tree::Debt& LoadMeter::debt_of(const TreeLoad& load) {
  Tree::Debt& debt = load.tree->debt;
  const VersionPtr& version = load.view->tables->version;
  if (debt.version == version && debt.policy == load.policy && debt.file_size == load.file_size &&
      debt.memtable_size == load.memtable_size) {
    return debt;
  }
  TreeShape shape = version->shape_at(load.memtable_size, load.file_size, 0);
  leave_out_frozen(&shape);
  debt = {version,
          load.policy,
          load.file_size,
          load.memtable_size,
          load.policy->debt_bytes(shape),
          shape.bytes(),
          load.policy->capacity_bytes(shape, 0)};
  return debt;
}

}  // namespace ebbtide
