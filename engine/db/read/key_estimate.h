// Estimates how many keys lie in a range, and how many entries a file's range tombstones cover. Both come from what is in memory:
// fences, counts of entries and the memtables. No I/O.
#pragma once

#include <cstdint>

#include "db/trees/tree_view.h"
#include "tree/shape.h"

namespace ebbtide {

/// As Db::estimate_keys.
[[nodiscard]] std::uint64_t estimate_keys(const TreeView& tree, const KeyRange& range);

/// Sets FileShape::invalidated of files with range tombstones: b of Sarkar et al., "Lethe: A Tunable Delete-Aware LSM Engine", SIGMOD
/// 2020, section 4.1.2. It counts point tombstones and the entries of older runs that range tombstones cover. `shape` is that of
/// `tables`. A table is estimated once, when a plan is first made with it: what lies below it changes little while it waits.
void estimate_invalidated(const TablesView& tables, TreeShape* shape);

}  // namespace ebbtide
