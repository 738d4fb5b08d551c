// Key ranges in which no merge runs because a file there is damaged.
//
// A quarantined file may hold any entry within its bounds, so no entry may be merged past it there: that range is *frozen*.
// Policies see the tree without the files that overlap a frozen range. Their plans are correct for the whole tree, since a file
// outside all frozen ranges overlaps none of the files left out. Files that reach from outside into a frozen range are first cut
// at the range's ends (policy/around.h).
#pragma once

#include <span>
#include <vector>

#include "tree/shape.h"

namespace ebbtide {

/// Returns the ranges of quarantined files, joined where they overlap or touch: disjoint, ascending. Empty if no file is
/// quarantined.
std::vector<KeyRange> frozen_ranges(const TreeShape& shape);
/// Returns the first of `frozen` that overlaps `range`; null if none does.
const KeyRange* frozen_at(std::span<const KeyRange> frozen, const KeyRange& range);
/// Removes all files that overlap a frozen range from the shape, and sets TreeShape::frozen. Runs stay, even if empty.
void leave_out_frozen(TreeShape* shape);

}  // namespace ebbtide
