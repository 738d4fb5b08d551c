// A tree for drawing: the position of each file in the key space, its size, and its pending deletes.
//
// A map has no keys. Positions go from 0, before the first key, to 1, after the last. A key range with twice as many bytes of
// data is drawn twice as wide. So positions show which files overlap, and reveal nothing about key names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

/// A table, or several adjacent tables of one run if there are too many to show.
struct TreeMapCell {
  FileNum file = kNoFile;     ///< number of the (first) table's data file
  std::uint64_t files = 1;    ///< number of tables
  double start = 0, end = 1;  ///< positions in the key space
  std::uint64_t bytes = 0, entries = 0, tombstones = 0, range_tombstones = 0;
  Millis oldest_birth = 0;  ///< birth of the oldest pending delete or passed expiry; 0 = none
  bool busy = false;        ///< true if a running job reads one of the tables
  bool operator==(const TreeMapCell&) const = default;
};

struct TreeMapRun {
  RunId id = 0;
  int level = 0;
  std::uint64_t files = 0, bytes = 0;
  std::vector<TreeMapCell> cells;  ///< in key order
  bool operator==(const TreeMapRun&) const = default;
};

struct TreeMapMemTable {
  std::uint64_t bytes = 0, entries = 0, tombstones = 0;
  Millis oldest_birth = 0;  ///< birth of the oldest delete or passed expiry; 0 = none
  bool frozen = false;      ///< true if the memtable waits to be flushed
};

/// A running compaction.
struct TreeMapJob {
  /// Kind: "merge", "slice", "move", "rewrite" or "drop". Reason: as the label `reason` of the metric compactions_total.
  std::string kind, reason;
  std::uint64_t files = 0, bytes = 0;  ///< number and bytes of the job's input files
  int from_level = 0, to_level = 0;
  bool urgent = false;
};

struct TreeMap {
  DatabaseId database = 0;
  TreeId tree = kNoTree;
  std::string policy;
  Millis delete_deadline = 0;              ///< in ms; 0 = no promise
  std::vector<TreeMapMemTable> memtables;  ///< newest first; writes go to the first
  std::vector<TreeMapRun> runs;            ///< newest first; runs without files are left out
  std::vector<TreeMapJob> jobs;
};

}  // namespace ebbtide
