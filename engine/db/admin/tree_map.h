// Computes the map of a tree for drawing: its runs as cells along the key space, its memtables and its running jobs. The map
// contains no keys of users.
#pragma once

#include <cstddef>

#include <engine/tree_map.h>
#include "compaction/job_registry.h"
#include "db/trees/tree_view.h"

namespace ebbtide {

/// Adds memtables, runs and jobs to `map`, whose delete_deadline is set. The map gets at most about `max_cells` cells. Each run
/// may have eight cells even if that exceeds the limit. `running` and `view` may be of different moments: a job whose input runs
/// were replaced shows no bytes for them.
void draw_tree(const TreeView& view, const JobRegistry::Running& running, Millis now, std::size_t max_cells, TreeMap* map);

}  // namespace ebbtide
