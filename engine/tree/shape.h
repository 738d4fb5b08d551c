// The shape of a tree as a plain value, for policies, the simulator, logs and tests.
//
// Runs are listed newest first and tagged with a level. Leveling has one run per level, tiering up to T - 1. Stack-based policies
// see all runs as one stack and put new ones on level 0. Files of a run have disjoint bounds, in key order. tree/text has the
// notation.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

struct FileShape {
  FileNum num = kNoFile;
  std::string smallest, largest;  ///< inclusive; as TableStats
  bool largest_exclusive = false, unbounded = false;
  std::uint64_t bytes = 0;  ///< data and metadata file
  std::uint64_t entries = 0, tombstones = 0, range_tombstones = 0;
  std::uint64_t invalidated = 0;  ///< b of Lethe: estimated number of entries its tombstones invalidate
  std::uint64_t dead = 0;         ///< known number of covered or expired entries
  Millis oldest_birth = 0;        ///< smallest birth of its pending deletes (tombstone, delete debt, passed expiry); 0 = none
  Millis deadline = 0;            ///< oldest_birth + the tree's delete deadline; 0 = none
  SeqNum min_seq = 0, max_seq = 0;
  DeleteKey min_delete_key = kNoStamp, max_delete_key = 0;
  Millis min_expiry = 0, max_expiry = 0;
  bool busy = false;         ///< input of a running job
  bool quarantined = false;  ///< damaged: no plan may take it or merge past it (tree/frozen.h)

  [[nodiscard]] bool overlaps(const FileShape& other) const;
  [[nodiscard]] bool overlaps(Bytes start, Bytes end) const;  ///< [start, end), end "" = none
  /// The bounds as a half-open range: exactly the keys that the file may have entries or tombstones for.
  [[nodiscard]] KeyRange range() const;
  bool operator==(const FileShape&) const = default;
};

/// The smallest range that contains both. Neither may be empty.
KeyRange hull(const KeyRange& a, const KeyRange& b);

struct RunShape {
  RunId id = 0;
  int level = 0;
  std::vector<FileShape> files;

  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] std::uint64_t entries() const;
  /// The files that overlap [start, end) are files[first] to files[second - 1]. O(log files).
  [[nodiscard]] std::pair<std::size_t, std::size_t> overlapping(Bytes start, Bytes end) const;
  bool operator==(const RunShape&) const = default;
};

struct TreeShape {
  std::vector<RunShape> runs;        ///< newest first; levels never decrease
  std::uint64_t memtable_bytes = 0;  ///< bytes that a full memtable flushes to: level 0's unit of capacity
  std::uint64_t file_bytes = 0;      ///< target file size
  std::vector<std::string> cursors;  ///< by level: the round-robin position
  std::uint64_t flushes = 0;         ///< persisted count of flushes (t of static stacks)
  int levels = 0;                    ///< persisted number of levels (L of Garnering); 0 = derived
  std::uint64_t deadline_bytes = 0;  ///< bytes flushed within a delete deadline, as measured; 0 = unknown
  Millis purge_before = 0;           ///< deletes born by then are overdue, whatever their deadline (PURGE.NOW); 0 = none are

  /// Key ranges of quarantined files, disjoint and ascending; set by leave_out_frozen(), which removes the files that overlap
  /// them. No plan may reach into or across them.
  std::vector<KeyRange> frozen;

  [[nodiscard]] const RunShape* run(RunId id) const;
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] int last_level() const;  ///< largest level with a file, 0 if none
  /// True if the run is final (bottommost) in [start, end): no older run of the tree overlaps that range.
  [[nodiscard]] bool is_final(RunId id, Bytes start, Bytes end) const;
  bool operator==(const TreeShape&) const = default;
};

/// Returns "" if `shape` is well-formed, else the fault: runs sorted by level, files of a run disjoint and in order, ids unique,
/// bounds in order.
std::string check(const TreeShape& shape);

}  // namespace ebbtide
