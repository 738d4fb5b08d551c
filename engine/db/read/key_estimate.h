// Estimates how many keys lie in a range, and how many entries a file's range tombstones cover. Both use only data in memory: fences, entry
// counts and memtables. No I/O.
#pragma once

#include <cstdint>

#include "db/trees/tree_view.h"
#include "tree/shape.h"

namespace ebbtide {

/// See Db::estimate_keys.
[[nodiscard]] std::uint64_t estimate_keys(const TreeView& tree, const KeyRange& range);

/// Sets FileShape::invalidated of files with range tombstones: b of Sarkar et al., "Lethe: A Tunable Delete-Aware LSM Engine", SIGMOD
/// 2020, section 4.1.2. It counts point tombstones and the entries of older runs that range tombstones cover. `shape` is that of
/// `tables`. Each table is estimated once, at its first plan, since the runs below it change little meanwhile.
void estimate_invalidated(const TablesView& tables, TreeShape* shape);

}  // namespace ebbtide
