// The shape of a tree as a plain value, for policies, the simulator, logs and tests.
//
// Runs are listed newest first, and each has a level. Leveling has one run per level, tiering up to T - 1. Stack-based policies
// see all runs as one stack and put new runs on level 0. Files of a run have disjoint bounds and are in key order. tree/text.h
// describes the text notation of a shape.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/types.h>
#include "base/shared_list.h"

namespace ebbtide {

struct FileShape {
  FileNum num = kNoFile;
  std::string smallest, largest;  ///< inclusive bounds, unless the next two fields say otherwise (TableStats)
  bool largest_exclusive = false, unbounded = false;
  std::uint64_t bytes = 0;  ///< bytes of data and metadata file
  std::uint64_t entries = 0, tombstones = 0, range_tombstones = 0;
  std::uint64_t invalidated = 0;  ///< b of Lethe: estimated number of entries that the file's tombstones invalidate
  std::uint64_t dead = 0;         ///< known number of covered or expired entries
  Millis oldest_birth = 0;  ///< oldest birth of the file's pending deletes (tombstone, delete debt, passed expiry); 0 = none
  Millis deadline = 0;      ///< the engine time by which the delete born at oldest_birth must be purged; 0 = none
  SeqNum min_seq = 0, max_seq = 0;
  DeleteKey min_delete_key = kNoStamp, max_delete_key = 0;
  Millis min_expiry = 0, max_expiry = 0;
  bool busy = false;         ///< true if a running job reads or changes the file
  bool quarantined = false;  ///< true if the file is damaged: no plan may take it or merge past it (tree/frozen.h)

  [[nodiscard]] bool overlaps(const FileShape& other) const;
  [[nodiscard]] bool is_before(const FileShape& other) const;  ///< true if all keys are before all keys of `other`
  [[nodiscard]] bool overlaps(Bytes start, Bytes end) const;   ///< the range is [start, end); end "" = no upper bound
  /// Returns the bounds as a half-open range: only keys in it may have entries or tombstones in the file.
  [[nodiscard]] KeyRange range() const;
  bool operator==(const FileShape&) const = default;
};

/// Returns the smallest range that contains both ranges. Each must contain a key.
KeyRange hull(const KeyRange& a, const KeyRange& b);

/// The sums of a chunk of files, for SharedList.
struct ShapeSums {
  std::uint64_t bytes = 0, busy_bytes = 0;  ///< bytes of all files, and bytes of busy files
  std::uint64_t entries = 0;
  std::uint64_t busy = 0, quarantined = 0;  ///< how many files are busy, and how many are quarantined
  std::uint64_t most_tombstones = 0;        ///< the most point and range tombstones that one file has
  std::uint64_t pending = 0;                ///< number of files with tombstones, dead entries, or an oldest_birth
  Millis oldest_birth = 0;                  ///< the oldest birth; 0 = none
  Millis deadline = 0;                      ///< the earliest deadline; 0 = none
  Millis min_expiry = 0;                    ///< the smallest expiry; 0 = none
  FileNum min_num = ~FileNum{0}, max_num = 0;

  static ShapeSums of(std::span<const FileShape> files);
};

/// The files of a run. Shapes of one tree share the chunks that did not change (base/shared_list.h).
using FileShapes = SharedList<FileShape, ShapeSums>;

struct RunShape {
  RunId id = 0;
  int level = 0;
  FileShapes files;

  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] std::uint64_t entries() const;
  [[nodiscard]] std::uint64_t busy_bytes() const;  ///< bytes of the busy files
  [[nodiscard]] bool is_busy() const;              ///< true if any file is busy
  /// Returns (first, second): the files that overlap [start, end) are files[first] to files[second - 1]. O(log files).
  [[nodiscard]] std::pair<std::size_t, std::size_t> overlapping(Bytes start, Bytes end) const;
  bool operator==(const RunShape&) const = default;
};

struct TreeShape {
  std::vector<RunShape> runs;        ///< newest first; levels never decrease
  std::uint64_t memtable_bytes = 0;  ///< size on disk of a full memtable after its flush: the unit of level capacities
  std::uint64_t file_bytes = 0;      ///< target file size
  std::vector<std::string> cursors;  ///< for each level, the key from which FileChoice::kRoundRobin continues
  std::uint64_t flushes = 0;         ///< persisted number of flushes (t of static stacks, policy/stack_schedule.h)
  int levels = 0;                    ///< persisted number of levels (L of Garnering); 0 = the deepest level in use
  /// Bytes flushed in a period as long as the shortest delete deadline of the tree, as measured; 0 = unknown.
  std::uint64_t deadline_bytes = 0;
  Millis purge_before = 0;  ///< deletes born by this time are overdue, whatever their deadline (PURGE.NOW); 0 = none

  /// Key ranges of quarantined files, disjoint and ascending. Set by leave_out_frozen(), which removes the files that overlap
  /// them. No plan may reach into or across these ranges.
  std::vector<KeyRange> frozen;

  [[nodiscard]] const RunShape* run(RunId id) const;
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] int last_level() const;  ///< returns the largest level that has a file; 0 if there are no files
  /// Returns true if the run is final (bottommost) in [start, end): no older run of the tree overlaps that range.
  [[nodiscard]] bool is_final(RunId id, Bytes start, Bytes end) const;
  bool operator==(const TreeShape&) const = default;
};

/// Sets FileShape::busy of the files with these numbers to `busy`. The numbers must be ascending.
void set_busy(RunShape* run, std::span<const FileNum> files, bool busy);

/// Returns "" if `shape` is well-formed, otherwise the fault: runs sorted by level, files of a run disjoint and in order, ids
/// unique, bounds in order.
std::string check(const TreeShape& shape);

}  // namespace ebbtide
