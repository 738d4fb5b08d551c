// Plans a manual merge (Db::compact). Pure function.
#pragma once

#include <engine/types.h>
#include "tree/plan.h"
#include "tree/shape.h"

namespace ebbtide {

/// Returns the plan that merges all files that overlap `range`, of all runs, into the oldest run with such a file. Files that
/// overlap these files are merged, too. Returns an empty plan if there is nothing to merge: at most one run has files in the
/// range, and these files have no tombstones and no dead entries. Also returns an empty plan, and sets `*busy`, if a running job
/// has one of the files.
Plan plan_full_merge(const TreeShape& shape, const KeyRange& range, bool* busy);

}  // namespace ebbtide
