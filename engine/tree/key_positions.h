// Where the files of a tree lie on one line, without a word about their keys: what pictures of a tree are drawn from.
//
// All bounds of all files, sorted, cut the key space into intervals. Each file spreads its bytes evenly over the intervals that
// it covers; the sum makes an interval wide or narrow. So the last level, which has most of the data, is drawn about to scale,
// and a file of a level above spans exactly what it overlaps.
#pragma once

#include <utility>
#include <vector>

#include "tree/shape.h"

namespace ebbtide {

/// For each run, newest first, and each of its files: start and end, 0 <= start < end <= 1. Files meet at a position exactly if
/// their ranges meet. O(n log n) comparisons of keys for n files.
std::vector<std::vector<std::pair<double, double>>> key_positions(const TreeShape& shape);

}  // namespace ebbtide
