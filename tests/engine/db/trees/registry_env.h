// The environment of a TreeRegistry without a database, for tests of components around it.
#pragma once

#include <functional>
#include <utility>

#include "db/trees/tree_registry.h"

namespace ebbtide::testing {

/// Returns the environment. Time stands at `now`. Flushes and filters that become due are ignored.
inline TreeRegistry::Env registry_env(const Clock& clock, Epoch& epoch, std::uint64_t memtable_size, Millis now,
                                      std::function<SeqNum()> last_seq) {
  return {.clock = &clock,
          .epoch = &epoch,
          .memtable_size = memtable_size,
          .now = [now] { return now; },
          .last_seq = std::move(last_seq),
          .frozen = [](const TreePtr&) {},
          .filters_changed = [](const TreePtr&) {}};
}

}  // namespace ebbtide::testing
