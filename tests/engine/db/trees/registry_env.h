// The environment of a TreeRegistry without a database, for tests of components around it.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "db/trees/tree_registry.h"

namespace ebbtide::testing {

/// Returns the settings of `count` databases, with memtables of this size.
inline std::vector<TreeSettings> databases_of(std::size_t count, std::uint64_t memtable_size) {
  TreeSettings settings;
  settings.memtable_size = memtable_size;
  return std::vector<TreeSettings>(count, settings);
}

/// Returns the environment. Time stands at `now`. Flushes and filters that become due are ignored.
inline TreeRegistry::Env registry_env(const Clock& clock, Epoch& epoch, Millis now, std::function<SeqNum()> last_seq) {
  return {.clock = &clock,
          .epoch = &epoch,
          .now = [now] { return now; },
          .last_seq = std::move(last_seq),
          .frozen = [](const TreePtr&) {},
          .filters_changed = [](const TreePtr&) {}};
}

}  // namespace ebbtide::testing
