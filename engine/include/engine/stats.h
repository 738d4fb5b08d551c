// The engine's statistics, as one value, for INFO, metrics, logs and tools.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

struct RunInfo {
  RunId id = 0;
  int level = 0;
  std::uint64_t files = 0, bytes = 0, entries = 0, tombstones = 0, range_tombstones = 0;
  std::uint64_t filter_bits = 0;
  /// Birth of the oldest pending delete in the run's files, including deletes by stamp and passed expiries. 0 = none.
  Millis oldest_tombstone_birth = 0;
};

/// The filters of one level, and the lookups that they saved.
struct FilterInfo {
  int level = 0;
  std::uint64_t entries = 0, bits = 0;  ///< entries of the level's runs; bits of their filters that are in memory
  double expected = 1;                  ///< expected false positives per lookup of a key that a run does not have; 1 = no filter
  /// Searches, since open, for a key that the run does not have: `denied` were ended by a filter, `in_vain` were false positives.
  std::uint64_t denied = 0, in_vain = 0;
  std::uint64_t found = 0;                 ///< searches, since open, for a key that the run has
  [[nodiscard]] double observed() const {  ///< returns the measured value of `expected`; 0 if there were no false positives
    return in_vain == 0 ? 0 : static_cast<double>(in_vain) / static_cast<double>(denied + in_vain);
  }
};

/// Compactions of one reason since open.
struct ReasonInfo {
  std::string reason;  ///< size, run_count, deadline, manual, space, scrub, dropped
  std::uint64_t jobs = 0, bytes_read = 0, bytes_written = 0;
};

/// A table whose files are damaged or missing. No plan uses it, and reads of damaged parts return an error.
struct QuarantinedFile {
  FileNum file = kNoFile;   ///< number of the data file
  std::uint64_t bytes = 0;  ///< bytes of the data and metadata files
  std::string damage;       ///< the fault, the file and the offset; never contains a key
};

struct TreeInfo {
  DatabaseId database = 0;
  TreeId tree = kNoTree;
  std::string policy;
  std::vector<RunInfo> runs;        ///< newest first
  std::vector<FilterInfo> filters;  ///< one per level that has runs, ascending; level 7 includes all deeper levels
  std::uint64_t memtable_bytes = 0, memtable_entries = 0, frozen_memtables = 0;
  std::uint64_t pending_compaction_bytes = 0;
  std::uint64_t records = 0;           ///< secondary range tombstones, also in memtables, that may still cover an entry
  Millis oldest_record_birth = 0;      ///< birth of the oldest of `records`; 0 = there are none
  std::uint32_t pages_per_tile = 0;    ///< pages per tile (h) of new tables: the setting, or, if that is 0, the engine's choice
  Millis delete_deadline = 0;          ///< deadline of new deletes, in ms; 0 = no promise
  std::uint64_t delete_io_budget = 0;  ///< bytes per second that merges for deadlines may read and write now; 0 = no limit
  Millis oldest_obligation = 0;        ///< birth of the oldest pending delete in memtables or tables; 0 = none
  Millis oldest_obligation_deadline = 0;  ///< engine time by which that delete must be purged; 0 = no promise
  std::uint64_t deadline_work_bytes = 0;  ///< estimated bytes that merges must still read for the deadlines
  /// Estimated number of keys: entries minus tombstones and the entries that they delete. Exact only if no key was overwritten.
  std::uint64_t estimated_keys = 0;
  std::vector<QuarantinedFile> quarantined;
};

/// A histogram: `buckets[i]` counts values in (bounds[i - 1], bounds[i]]; the last bucket counts values above all bounds.
struct HistogramInfo {
  std::vector<double> bounds;
  std::vector<std::uint64_t> buckets;
  double sum = 0;
};

struct Stats {
  // bytes since open
  std::uint64_t user_bytes_written = 0, wal_bytes_written = 0, flush_bytes_written = 0;
  std::uint64_t compaction_bytes_read = 0, compaction_bytes_written = 0;
  // counts since open
  std::uint64_t gets = 0, get_hits = 0, get_misses = 0, writes = 0, batches = 0, iterators = 0;
  std::uint64_t secondary_deletes = 0;  ///< secondary range deletes written
  std::uint64_t flushes = 0, compactions = 0, trivial_moves = 0, sub_merges = 0, files_dropped = 0;
  /// Pages that page drops removed without reading them (full), and pages that they replaced by their survivors (partial).
  std::uint64_t pages_dropped_full = 0, pages_dropped_partial = 0;
  /// Bytes freed by unlinking whole files; bytes freed by punching dropped pages.
  std::uint64_t reclaimed_bytes_unlinked = 0, reclaimed_bytes_punched = 0;
  std::uint64_t wal_syncs = 0, wal_writes = 0;
  std::uint64_t cache_hits = 0, cache_misses = 0, pages_read = 0, filter_negatives = 0, filter_false_positives = 0;
  std::uint64_t fetches = 0;
  /// Number of runs whose tables a completed get searched, including runs whose filter denied the key.
  HistogramInfo runs_probed;
  // Write stalls by cause, in µs since open: time in which writes were stopped, and delays of writes by a slowdown. This is wall
  // time: two clients that wait at the same time count once.
  std::uint64_t stall_micros_memtable = 0, stall_micros_runs = 0, stall_micros_pending_bytes = 0;
  std::uint64_t stall_micros_deadline = 0;
  bool write_stalled = false;
  // purging of deletes
  std::uint64_t deadline_work_bytes = 0;  ///< estimated bytes that merges must still read for the deadlines of all trees
  double deadline_rate_needed = 0;        ///< rate of merges needed to meet the deadlines / measured rate; 0 to 1
  Millis least_feasible_deadline = 0;  ///< ms in which merges, at their measured rate, rewrite all bottommost data; 0 = unknown
  /// Seconds from a delete until it was purged from all files. Only a sample of the deletes is measured: at most one per second
  /// and tree, the oldest pending one (PersistTimes in db/purge/purge_history.h).
  HistogramInfo delete_persist_seconds;
  /// Bytes that are no longer needed but still in files. `deleted`: entries hidden by tombstones (estimated). `dropped_pages`:
  /// dropped pages that are not punched yet. `leaving`: replaced or removed files that are open or not unlinked yet.
  std::uint64_t garbage_deleted = 0, garbage_dropped_pages = 0, garbage_leaving = 0;
  std::vector<ReasonInfo> merges_by_reason;
  // memory, bytes now
  std::uint64_t memory_budget = 0, memtable_bytes = 0, cache_bytes = 0, cache_capacity = 0, table_bytes = 0;
  /// MemoryAccount::charged() by kind. The kind kMemTables is part of memtable_bytes.
  std::uint64_t connection_bytes = 0, large_value_bytes = 0, pinned_page_bytes = 0, command_bytes = 0;
  // disk, bytes now
  std::uint64_t wal_live_bytes = 0, table_live_bytes = 0;
  Millis wal_oldest_record = 0;  ///< engine time of the oldest batch in the log's files; 0 = none
  double disk_used_ratio = 0;    ///< used part of the disk or of max_disk_bytes, whichever is larger
  std::uint64_t compactions_running = 0;
  std::uint64_t snapshots = 0;
  Millis oldest_snapshot = 0;  ///< engine time at which the oldest snapshot was made; 0 = there is none
  std::uint64_t leases_revoked = 0;
  // Indexes and filters of tables. index_bytes (a part of table_bytes) and indexed_tables: those in memory now. Loads and
  // unloads are counts since open. An index is loaded when its table is written or searched.
  std::uint64_t index_bytes = 0, index_capacity = 0, indexed_tables = 0, index_loads = 0, index_unloads = 0;
  std::uint64_t table_files = 0;           ///< table files that are in use
  std::uint64_t table_files_open = 0;      ///< table files that are open now: at most Settings::max_open_files
  std::uint64_t table_files_reopened = 0;  ///< times since open that a read had to open a table file again
  std::uint64_t scrub_bytes = 0;           ///< bytes that the scrub has read and checked since open
  /// Number of faults that the scrub and Db::verify() found in tables since open. Each fault was reported to the EventListener.
  std::uint64_t scrub_errors = 0;
  /// Number of times, since open, that a tree was outside its policy's bounds (runs, capacities, depth) although the policy
  /// planned no more work. Each case is a bug of the policy and was reported to the EventListener.
  std::uint64_t bounds_broken = 0;
  std::uint64_t quarantined_files = 0;  ///< damaged or missing tables: TreeInfo::quarantined lists them by database
  // How many deletes since open were not purged by their deadline, by reason. `down`: the server was not running. `clock`: the
  // clock stepped. `disk`: the disk was full or failed. `damage`: a quarantined file has the data. `load`: none of these, which
  // is a bug.
  std::uint64_t deadlines_missed_down = 0, deadlines_missed_clock = 0, deadlines_missed_disk = 0;
  std::uint64_t deadlines_missed_damage = 0, deadlines_missed_load = 0;
  std::uint64_t dropped_trees = 0;  ///< trees of emptied databases that are still in the manifest
  SeqNum visible_seq = 0, logged_seq = 0, synced_seq = 0;
  Millis engine_time = 0;
  bool clock_step_refused = false;  ///< true if engine time does not follow a step of the wall clock by more than a day
  bool read_only = false;
  std::string read_only_reason;
};

/// The result of Db::verify.
struct VerifyReport {
  std::uint64_t files = 0, pages = 0, entries = 0, bytes = 0;
  std::vector<std::string> errors;  ///< each names the file and the offset of a fault
};

/// The result of Db::checkpoint.
struct CheckpointReport {
  SeqNum seq = 0;                  ///< the checkpoint has every operation up to this seq, and maybe later operations
  Millis time = 0;                 ///< engine time of the checkpoint
  std::uint64_t files = 0;         ///< number of files of tables and log
  std::uint64_t bytes = 0;         ///< bytes of those files, links included
  std::uint64_t bytes_copied = 0;  ///< bytes of files that were copied because a link was not possible
  std::uint64_t damaged = 0;       ///< number of quarantined tables, which are also quarantined in the checkpoint
};

}  // namespace ebbtide
