// The plan of a manual merge (Db::compact). Pure.
#pragma once

#include <engine/types.h>
#include "tree/plan.h"
#include "tree/shape.h"

namespace ebbtide {

/// Merges all files of all runs that overlap `range` into the oldest run that has one. Files that these overlap take part, too. An
/// empty plan if there is nothing to merge: at most one run has files there, and deletes cover none of their entries. Also empty,
/// with `*busy` set, if a running job has one of the files.
Plan plan_full_merge(const TreeShape& shape, const KeyRange& range, bool* busy);

}  // namespace ebbtide
