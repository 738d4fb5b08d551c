// Estimates the number of keys in a range, and the number of entries that a file's range tombstones cover. Both estimates use
// only data in memory: fences, entry counts and memtables.
#pragma once

#include <cstdint>

#include "db/trees/tree_view.h"
#include "tree/shape.h"

namespace ebbtide {

/// Like Db::estimate_keys(), for the tree of a view.
[[nodiscard]] std::uint64_t estimate_keys(const TreeView& tree, const KeyRange& range);

/// Sets FileShape::invalidated of files with range tombstones: b of Sarkar et al., "Lethe: A Tunable Delete-Aware LSM Engine",
/// SIGMOD 2020, section 4.1.3. The number is the sum of point tombstones and of entries in older runs that range tombstones
/// cover. `shape` is the shape of `tables`. Each table is estimated only once, at its first plan, since older runs change little.
void estimate_invalidated(const TablesView& tables, TreeShape* shape);

}  // namespace ebbtide
