#include "server_settings.h"

#include <algorithm>

#include "machine/machine.h"
#include "resp/block_pool.h"

namespace ebbtide {
namespace {

/// A memtable takes at most 1 / n of the memory budget. Until the memory is measured again, there may be several memtables: the
/// active one, and full ones that wait for their flush. Larger memtables could exceed the budget in that time.
constexpr std::uint64_t kMemTablePart = 4;

/// The part of the memory budget that shared free blocks may keep, and its bounds.
constexpr std::uint64_t kFreeBlocksPart = 64;
constexpr std::uint64_t kLeastFreeBlocks = std::uint64_t{1} << 20, kMostFreeBlocks = std::uint64_t{32} << 20;

}  // namespace

unsigned loop_count(const Config& config) {
  return config.threads != 0 ? static_cast<unsigned>(config.threads) : event_loops_for(usable_cores().count);
}

Settings resolved_settings(const Config& config, std::uint64_t memory) {
  Settings settings = config.engine;
  settings.memory_budget = memory_budget_of(config, memory);
  if (settings.background_threads == 0) settings.background_threads = merge_threads_for(usable_cores().count);
  const auto limit = [most = settings.memory_budget / kMemTablePart](TreeSettings& tree) {
    tree.memtable_size = std::min(tree.memtable_size, most);
  };
  limit(settings.tree);
  for (auto& [database, tree] : settings.overrides) limit(tree);
  settings.keep_workload = true;
  return settings;
}

TuningSettings tuning_settings(const Config& config) {
  return {config.tuning_auto, config.tuning_window_ms, {config.tuning_rho, config.expected_workload()}, config.tuning_device};
}

void share_blocks_within(std::uint64_t budget) {
  set_shared_block_bytes(std::clamp(budget / kFreeBlocksPart, kLeastFreeBlocks, kMostFreeBlocks));
}

}  // namespace ebbtide
