// The workload of one database: how many operations of each kind it had in each window of time, and facts about its tree. Advice
// of settings depends on both. engine/docs/tuner.md says which command counts as which kind.
//
// summarize() and recommend() (engine/tuner.h) turn a workload into a mix, its uncertainty, and advice.
#pragma once

#include <cstdint>
#include <vector>

#include <engine/options.h>
#include <engine/types.h>

namespace ebbtide {

/// Counts of operations by kind (Huynh et al., Endure, section 3). An operation counts the same whether it finds its key in a
/// memtable or in a table.
struct OperationCounts {
  std::uint64_t empty_reads = 0;    ///< point reads that found no key
  std::uint64_t reads = 0;          ///< point reads that found their key
  std::uint64_t ranges = 0;         ///< range reads: each positioning of an iterator
  std::uint64_t writes = 0;         ///< puts, deletes of keys and of ranges; without deletes by stamp
  std::uint64_t range_entries = 0;  ///< entries that the range reads passed, hidden versions and tombstones included
  /// The part of `writes` to which a delete deadline applies: deletes of keys and of ranges, and puts with a delete debt.
  std::uint64_t deletes = 0;
  std::uint64_t stamp_deletes = 0;  ///< deletes by stamp

  /// Returns the number of reads, range reads and writes. Deletes by stamp are not counted.
  [[nodiscard]] std::uint64_t total() const { return empty_reads + reads + ranges + writes; }
  OperationCounts& operator+=(const OperationCounts& other) {
    empty_reads += other.empty_reads;
    reads += other.reads;
    ranges += other.ranges;
    writes += other.writes;
    range_entries += other.range_entries;
    deletes += other.deletes;
    stamp_deletes += other.stamp_deletes;
    return *this;
  }
  bool operator==(const OperationCounts&) const = default;
};
/// Returns the difference of two readings of the same counters, each count on its own. A count that is smaller in `now` than in
/// `earlier` gives 0.
[[nodiscard]] inline OperationCounts counts_since(const OperationCounts& now, const OperationCounts& earlier) {
  const auto since = [](std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; };
  return {since(now.empty_reads, earlier.empty_reads),
          since(now.reads, earlier.reads),
          since(now.ranges, earlier.ranges),
          since(now.writes, earlier.writes),
          since(now.range_entries, earlier.range_entries),
          since(now.deletes, earlier.deletes),
          since(now.stamp_deletes, earlier.stamp_deletes)};
}

/// The operations from `start` on, for `length`, both in ms of engine time.
struct WorkloadWindow {
  Millis start = 0, length = 0;
  OperationCounts counts;
  bool operator==(const WorkloadWindow&) const = default;
};

/// Costs of accesses to a storage device, relative to a random read of a page. `ebbtide-tune device` measures them.
struct DeviceCosts {
  double write_asymmetry = 1;  ///< cost of writing a page / cost of reading it, 0 to 1e6
  double sequential_cost = 1;  ///< cost of a page in a sequential access / cost in a random access, 0 to 1e6
  bool operator==(const DeviceCosts&) const = default;
};

/// The result of Db::workload(): one database's operations, and its tree as it is now.
struct Workload {
  DatabaseId database = 0;
  OperationCounts since_open;
  /// Windows that had operations, oldest first. The last window may still be running: then its length is the time so far.
  std::vector<WorkloadWindow> windows;
  // the tree
  TreeSettings settings;
  std::uint64_t table_entries = 0;   ///< entries of all tables, old versions and tombstones included
  std::uint64_t table_bytes = 0;     ///< bytes of the keys and values of these entries, before compression
  double entries_per_file = 0;       ///< entries of a file of the largest size; 0: there are no tables
  std::uint32_t pages_per_tile = 1;  ///< pages per tile (h) of new tables: the setting, or, if 0, the engine's choice
  /// The h that the engine uses, or would use, if TreeSettings::pages_per_tile is 0 (auto).
  std::uint32_t measured_pages_per_tile = 1;
  /// Fraction of the page reads since open, in all databases, that the block cache did not serve; 1 if there were no page reads.
  double cache_miss_ratio = 1;
  DeviceCosts device;  ///< Db::workload() leaves the defaults; a caller that knows the device sets it
};

}  // namespace ebbtide
