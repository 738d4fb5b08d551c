// Which file of a full level goes down next: pure functions with total, documented tie-breaks, so that every choice repeats.
//
//   round_robin       the first file at or past the level's cursor, else the level's first
//   least_overlap     SO of Lethe (section 4.1.3): fewest bytes of the next level rewritten per byte moved down;
//                     ties: most tombstones
//   most_tombstones   SD of Lethe: the largest b, the estimated number of entries that its tombstones invalidate;
//                     ties: oldest tombstone, then most tombstones
//   oldest            DD of Lethe: the oldest tombstone (or other obligation; files without one come last); ties: most
//                     tombstones, then the smallest seq, that is, what has not moved for longest
// What is still tied goes in key order. Lethe counts overlap in files of one size; here files differ, so it is a ratio of bytes.
#pragma once

#include <cstdint>
#include <span>

#include <engine/options.h>
#include "tree/shape.h"

namespace ebbtide {

/// A file that may be taken, and what it would meet.
struct FileCandidate {
  const FileShape* file = nullptr;
  std::uint64_t overlap_bytes = 0;  ///< of the files of the next level that it overlaps
};

/// The candidate to take; null if there is none. `candidates` are in key order; `cursor` is for round robin alone ("" = the
/// start).
const FileCandidate* choose_file(FileChoice choice, std::span<const FileCandidate> candidates, Bytes cursor);

}  // namespace ebbtide
