// Describes one tree in numbers: memtables, runs, filters, and what deletes and compactions have pending.
#pragma once

#include <cstdint>

#include <engine/stats.h>
#include "db/trees/tree_lookups.h"
#include "db/trees/tree_view.h"
#include "deletes/deadline.h"
#include "policy/policy.h"

namespace ebbtide {

/// A tree at one moment. References outlive the call of describe_tree().
struct TreeFacts {
  const TreeView& view;
  const Policy& policy;
  const DeadlineRule& rule;
  LookupsByLevel lookups{};            ///< since the tree was opened
  std::uint64_t memtable_size = 0;     ///< of a full memtable
  std::uint64_t file_size = 0;         ///< target for tables
  std::uint64_t delete_io_budget = 0;  ///< in force, bytes per second
  std::uint64_t deadline_work_bytes = 0;
  Millis now = 0;  ///< engine time
};

/// Fills in all but TreeInfo::database and TreeInfo::pages_per_tile. Pure.
void describe_tree(const TreeFacts& tree, TreeInfo* info);

}  // namespace ebbtide
