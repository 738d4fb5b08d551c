#include "policy/file_choice.h"

#include <limits>

namespace ebbtide {
namespace {

__extension__ using Wide = unsigned __int128;

/// Returns a negative number if `a` comes first, a positive number if `b` comes first, and 0 for a tie.
template <typename T>
int smaller_first(T a, T b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

Millis birth_or_never(const FileShape& file) {
  return file.oldest_birth == 0 ? std::numeric_limits<Millis>::max() : file.oldest_birth;
}
std::uint64_t tombstones(const FileShape& file) { return file.tombstones + file.range_tombstones; }

int most_tombstones_first(const FileShape& a, const FileShape& b) { return smaller_first(tombstones(b), tombstones(a)); }

int by_overlap(const FileCandidate& a, const FileCandidate& b) {
  // Compares overlap_a / bytes_a with overlap_b / bytes_b without rounding. An empty file (bytes 0) counts as one byte.
  const auto cross = [](const FileCandidate& x, const FileCandidate& y) {
    return static_cast<Wide>(x.overlap_bytes) * (y.file->bytes == 0 ? 1 : y.file->bytes);
  };
  if (const int order = smaller_first(cross(a, b), cross(b, a))) return order;
  return most_tombstones_first(*a.file, *b.file);
}

int by_invalidated(const FileCandidate& a, const FileCandidate& b) {
  if (const int order = smaller_first(b.file->invalidated, a.file->invalidated)) return order;
  if (const int order = smaller_first(birth_or_never(*a.file), birth_or_never(*b.file))) return order;
  return most_tombstones_first(*a.file, *b.file);
}

int by_age(const FileCandidate& a, const FileCandidate& b) {
  if (const int order = smaller_first(birth_or_never(*a.file), birth_or_never(*b.file))) return order;
  if (const int order = most_tombstones_first(*a.file, *b.file)) return order;
  return smaller_first(a.file->min_seq, b.file->min_seq);
}

/// Returns the first of the best candidates in key order.
template <typename Compare>
const FileCandidate* first_best(std::span<const FileCandidate> candidates, Compare compare) {
  const FileCandidate* best = nullptr;
  for (const FileCandidate& candidate : candidates) {
    if (best == nullptr || compare(candidate, *best) < 0) best = &candidate;
  }
  return best;
}

const FileCandidate* after_cursor(std::span<const FileCandidate> candidates, Bytes cursor) {
  for (const FileCandidate& candidate : candidates) {
    if (Bytes(candidate.file->smallest) >= cursor) return &candidate;
  }
  return candidates.empty() ? nullptr : &candidates.front();
}

}  // namespace

const FileCandidate* choose_file(FileChoice choice, std::span<const FileCandidate> candidates, Bytes cursor) {
  switch (choice) {
    case FileChoice::kRoundRobin:
      return after_cursor(candidates, cursor);
    case FileChoice::kLeastOverlap:
      return first_best(candidates, by_overlap);
    case FileChoice::kMostTombstones:
      return first_best(candidates, by_invalidated);
    case FileChoice::kOldest:
      return first_best(candidates, by_age);
  }
  return nullptr;
}

}  // namespace ebbtide
