// Chooses the file of a full level that is merged into the next level. The functions are pure and break every tie, so choices
// are repeatable.
//
//   round_robin       the first file at or past the level's cursor, else the level's first file
//   least_overlap     SO of Lethe (section 4.1.4): the file with the fewest bytes of the next level rewritten per byte moved
//                     down; ties: most tombstones
//   most_tombstones   SD of Lethe: the file with the largest b, the estimated number of entries that its tombstones invalidate;
//                     ties: oldest tombstone, then most tombstones
//   oldest            DD of Lethe: the file with the oldest pending delete; files without pending deletes come last; ties: most
//                     tombstones, then the smallest seq, that is, the oldest data
// If files are still equal, the first in key order is chosen. Lethe counts the overlapped files, which all have one size.
// Here file sizes differ, so overlap is a ratio of bytes.
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

/// Returns the chosen candidate, or null if there are no candidates. `candidates` are in key order. `cursor`, used only by round
/// robin, is a key, or "" for the start of the level.
const FileCandidate* choose_file(FileChoice choice, std::span<const FileCandidate> candidates, Bytes cursor);

}  // namespace ebbtide
