// Describes one tree in numbers: memtables, runs, filters, and pending deletes and compactions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <engine/stats.h>
#include <engine/workload.h>
#include "db/trees/tree_lookups.h"
#include "db/trees/tree_view.h"
#include "deletes/deadline.h"
#include "policy/policy.h"

namespace ebbtide {

/// The state of a tree at one moment. The references must outlive the call of describe_tree().
struct TreeFacts {
  const TreeView& view;
  const Policy& policy;
  const DeadlineRule& rule;
  LookupsByLevel lookups{};            ///< lookups since the tree was opened
  std::uint64_t memtable_size = 0;     ///< bytes of a full memtable
  std::uint64_t file_size = 0;         ///< target bytes of a table
  std::uint64_t delete_io_budget = 0;  ///< the current budget, bytes per second
  std::uint64_t deadline_work_bytes = 0;
  Millis now = 0;  ///< engine time
};

/// Fills in all members of `info` except database and pages_per_tile. Pure function.
void describe_tree(const TreeFacts& tree, TreeInfo* info);

/// Sets the entries and bytes of all tables, and the entries of a file of the largest size by `out->settings`. Pure function.
void measure_tables(const Version& version, Workload* out);

/// Returns misses / (hits + misses); 1 if both are 0. Pure function.
[[nodiscard]] double miss_ratio(std::uint64_t hits, std::uint64_t misses);

/// Appends one line for each quarantined file of the database, with its damage. Pure function.
void list_damage(DatabaseId database, const TablesView& tables, std::vector<std::string>* lines);

}  // namespace ebbtide
