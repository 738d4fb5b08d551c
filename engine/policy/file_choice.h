// Chooses the file of a full level that goes down next. The functions are pure and break every tie, so choices are repeatable.
//
//   round_robin       the first file at or past the level's cursor, else the level's first file
//   least_overlap     SO of Lethe (section 4.1.4): the file with the fewest bytes of the next level rewritten per byte moved
//                     down; ties: most tombstones
//   most_tombstones   SD of Lethe: the file with the largest b, the estimated number of entries that its tombstones invalidate;
//                     ties: oldest tombstone, then most tombstones
//   oldest            DD of Lethe: the file with the oldest tombstone or other obligation; files without one come last; ties:
//                     most tombstones, then the smallest seq, that is, the file that has not moved for the longest time
// Remaining ties go in key order. Lethe measures overlap in files of one size; here file sizes differ, so overlap is a ratio of
// bytes.
#pragma once

#include <cstdint>
#include <span>

#include <engine/options.h>
#include "tree/shape.h"

namespace ebbtide {

/// A candidate file, and its overlap with the next level.
struct FileCandidate {
  const FileShape* file = nullptr;
  std::uint64_t overlap_bytes = 0;  ///< bytes of the files of the next level that `file` overlaps
};

/// Returns the chosen candidate, or null if there are no candidates. `candidates` are in key order. Only round robin uses
/// `cursor`, a key ("" = start of the level).
const FileCandidate* choose_file(FileChoice choice, std::span<const FileCandidate> candidates, Bytes cursor);

}  // namespace ebbtide
