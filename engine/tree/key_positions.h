// Computes positions of a tree's files on a line, without their keys: for drawings of a tree.
//
// The sorted bounds of all files divide the key space into intervals. Each file's bytes are distributed evenly over the file's
// intervals; the width of an interval is the sum of the bytes that it gets from all files. The last level has most of the data,
// so it is drawn about to scale. A file of a smaller level spans exactly the files that it overlaps.
#pragma once

#include <utility>
#include <vector>

#include "tree/shape.h"

namespace ebbtide {

/// Returns, for each run (newest first) and each of its files, its start and end, with 0 <= start < end <= 1. Positions of two
/// files overlap if and only if their key ranges overlap. Takes O(n log n) comparisons of keys for n files.
std::vector<std::vector<std::pair<double, double>>> key_positions(const TreeShape& shape);

}  // namespace ebbtide
