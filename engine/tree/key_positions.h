// Computes positions of a tree's files on a line, without their keys: for drawings of a tree.
//
// The sorted bounds of all files divide the key space into intervals. Each file's bytes are distributed evenly over its
// intervals; an interval is as wide as its sum of bytes. So the last level, which has most of the data, is drawn about to scale,
// and a file of a level above spans exactly the files that it overlaps.
#pragma once

#include <utility>
#include <vector>

#include "tree/shape.h"

namespace ebbtide {

/// Returns, for each run (newest first) and each of its files, start and end, 0 <= start < end <= 1. Two files overlap in
/// position if and only if their ranges overlap. Takes O(n log n) comparisons of keys for n files.
std::vector<std::vector<std::pair<double, double>>> key_positions(const TreeShape& shape);

}  // namespace ebbtide
