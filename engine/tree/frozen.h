// The parts of the key space in which merges stand still because a file there is damaged.
//
// A quarantined file may hold anything within its bounds, so nothing may be merged from above it to below it there: that range is
// *frozen*. Policies see the tree without the files that meet a frozen range. What they ask for is then right for the whole tree: a
// file that lies outside of all frozen ranges overlaps none of those that were left out. Files that reach from outside into a frozen
// range are first cut at its ends (policy/around.h).
#pragma once

#include <span>
#include <vector>

#include "tree/shape.h"

namespace ebbtide {

/// The hulls of quarantined files that overlap or touch: disjoint, ascending. Empty if no file is quarantined.
std::vector<KeyRange> frozen_ranges(const TreeShape& shape);
/// The one of `frozen` that meets `range`, the first of several; null if none does.
const KeyRange* frozen_at(std::span<const KeyRange> frozen, const KeyRange& range);
/// Takes all files that meet a frozen range out of the shape and sets TreeShape::frozen. Runs stay, though they may be empty.
void leave_out_frozen(TreeShape* shape);

}  // namespace ebbtide
