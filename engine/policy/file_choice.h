// Chooses the file of a full level that goes down next. Pure functions with complete tie-breaks, so that choices are repeatable.
//
//   round_robin       the first file at or past the level's cursor, else the level's first
//   least_overlap     SO of Lethe (section 4.1.3): fewest bytes of the next level rewritten per byte moved down;
//                     ties: most tombstones
//   most_tombstones   SD of Lethe: the largest b, the estimated number of entries that its tombstones invalidate;
//                     ties: oldest tombstone, then most tombstones
//   oldest            DD of Lethe: the oldest tombstone (or other obligation; files without one come last); ties: most
//                     tombstones, then the smallest seq, that is, the file that has not moved for longest
// Remaining ties go in key order. Lethe counts overlap in files of one size; here file sizes differ, so it is a ratio of bytes.
#pragma once

#include <cstdint>
#include <span>

#include <engine/options.h>
#include "tree/shape.h"

namespace ebbtide {

/// A candidate file, and its overlap.
struct FileCandidate {
  const FileShape* file = nullptr;
  std::uint64_t overlap_bytes = 0;  ///< of the files of the next level that it overlaps
};

/// Returns the chosen candidate; null if there is none. `candidates` are in key order; `cursor` is used by round robin only ("" =
/// the start).
const FileCandidate* choose_file(FileChoice choice, std::span<const FileCandidate> candidates, Bytes cursor);

}  // namespace ebbtide
