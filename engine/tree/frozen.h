// Key ranges in which no merge runs because a file there is damaged.
//
// A quarantined file may hold any entry within its bounds. So in that key range no entry may be merged from a newer run into an
// older run than the file's: the range is *frozen*. Policies see the tree without the files that overlap a frozen range. Their
// plans are correct for the whole tree, since a file outside all frozen ranges overlaps no file that policies do not see. A file
// that overlaps a frozen range only in part is first cut at the range's ends (policy/around.h).
#pragma once

#include <span>
#include <vector>

#include "tree/shape.h"

namespace ebbtide {

/// Returns the ranges of quarantined files, joined where they overlap or touch: disjoint, ascending. Empty if no file is
/// quarantined.
std::vector<KeyRange> frozen_ranges(const TreeShape& shape);
/// Returns the first of the `frozen` ranges that overlaps `range`; null if no frozen range overlaps it.
const KeyRange* frozen_at(std::span<const KeyRange> frozen, const KeyRange& range);
/// Removes all files that overlap a frozen range from the shape, and sets TreeShape::frozen. Runs stay, even if empty.
void leave_out_frozen(TreeShape* shape);

}  // namespace ebbtide
