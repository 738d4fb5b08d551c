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
  /// Of the oldest delete that its files still hold traces of, deletes by stamp and expiries that have passed included; 0 = none.
  Millis oldest_tombstone_birth = 0;
};

/// Filters of a level, and what lookups of keys that are not in a run there had from them.
struct FilterInfo {
  int level = 0;
  std::uint64_t entries = 0, bits = 0;     ///< of its runs; bits in memory
  double expected = 1;                     ///< part of those lookups that look at a page for nothing, a run; 1 = no filter
  std::uint64_t denied = 0, in_vain = 0;   ///< such lookups since open: a filter ended them; they looked at a page
  std::uint64_t found = 0;                 ///< lookups that found their key
  [[nodiscard]] double observed() const {  ///< as `expected`; 0 before the first one
    return in_vain == 0 ? 0 : static_cast<double>(in_vain) / static_cast<double>(denied + in_vain);
  }
};

/// Compactions by reason.
struct ReasonInfo {
  std::string reason;  ///< size, run_count, deadline, manual, space, scrub, dropped
  std::uint64_t jobs = 0, bytes_read = 0, bytes_written = 0;
};

/// A table whose files are damaged or missing: it is in no plan, and reads that need what is damaged answer with an error.
struct QuarantinedFile {
  FileNum file = kNoFile;   ///< of its data
  std::uint64_t bytes = 0;  ///< of data and metadata
  std::string damage;       ///< what was found, where; never a key
};

struct TreeInfo {
  DatabaseId database = 0;
  TreeId tree = kNoTree;
  std::string policy;
  std::vector<RunInfo> runs;        ///< newest first
  std::vector<FilterInfo> filters;  ///< of the levels that have runs, ascending; levels deeper than 7 are the last one's
  std::uint64_t memtable_bytes = 0, memtable_entries = 0, frozen_memtables = 0;
  std::uint64_t pending_compaction_bytes = 0;
  std::uint64_t records = 0;              ///< secondary range deletes that may still cover something, those in memtables included
  Millis oldest_record_birth = 0;         ///< 0 = there are none
  std::uint32_t pages_per_tile = 0;       ///< of tables that are written now; as set, or as measured
  Millis delete_deadline = 0;             ///< for what is deleted now; 0 = no promise
  std::uint64_t delete_io_budget = 0;     ///< bytes per second that merges for deadlines may read and write now; 0 = no limit
  Millis oldest_obligation = 0;           ///< birth of the oldest delete that memtables or tables still hold; 0 = none
  Millis oldest_obligation_deadline = 0;  ///< by when it is to be gone; 0 = nothing was promised
  std::uint64_t deadline_work_bytes = 0;  ///< estimate of what merges must still read for the deadlines
  /// An estimate of the keys that exist: entries less tombstones and what these delete. Exact only when nothing was overwritten.
  std::uint64_t estimated_keys = 0;
  std::vector<QuarantinedFile> quarantined;
};

/// Observations by size: `buckets[i]` counts those of at most `bounds[i]` that are in no earlier one, the last those above all.
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
  std::uint64_t pages_dropped_full = 0, pages_dropped_partial = 0;          ///< without being read; by being replaced
  std::uint64_t reclaimed_bytes_unlinked = 0, reclaimed_bytes_punched = 0;  ///< by drops: of whole files; of pages
  std::uint64_t wal_syncs = 0, wal_writes = 0;
  std::uint64_t cache_hits = 0, cache_misses = 0, pages_read = 0, filter_negatives = 0, filter_false_positives = 0;
  std::uint64_t fetches = 0;
  /// By gets that found their key, or that there is none: the runs whose tables were asked, filters included.
  HistogramInfo runs_probed;
  // stalls, by cause: how long writes were stopped, and what a slowdown made those that were let through wait. Time on the clock:
  // two clients that wait side by side count once.
  std::uint64_t stall_micros_memtable = 0, stall_micros_runs = 0, stall_micros_pending_bytes = 0;
  std::uint64_t stall_micros_deadline = 0;
  bool write_stalled = false;
  // deletes on time
  std::uint64_t deadline_work_bytes = 0;  ///< estimate of what merges must still read for the deadlines of all trees
  double deadline_rate_needed = 0;        ///< part of the measured rate of merges that the deadlines need, 0 to 1
  Millis least_feasible_deadline = 0;     ///< what merging all final data takes at the measured rate; 0 = unknown yet
  /// Seconds from a delete until nothing of it was in any file. Samples: of each tree at most one delete a second, always the
  /// oldest that is left (PersistTimes in db/purge/purge_history.h).
  HistogramInfo delete_persist_seconds;
  /// Bytes of files that are no longer needed: entries hidden by tombstones (an estimate); dropped pages that are not punched
  /// yet; replaced or removed files that are still open or about to be unlinked.
  std::uint64_t garbage_deleted = 0, garbage_dropped_pages = 0, garbage_leaving = 0;
  std::vector<ReasonInfo> merges_by_reason;
  // memory, bytes now
  std::uint64_t memory_budget = 0, memtable_bytes = 0, cache_bytes = 0, cache_capacity = 0, table_bytes = 0;
  /// MemoryAccount, by kind; what it has as kMemTables is part of memtable_bytes.
  std::uint64_t connection_bytes = 0, large_value_bytes = 0, pinned_page_bytes = 0, command_bytes = 0;
  // disk, bytes now
  std::uint64_t wal_live_bytes = 0, table_live_bytes = 0;
  Millis wal_oldest_record = 0;  ///< engine time of the oldest batch that the log's files hold; 0 = they hold none
  double disk_used_ratio = 0;    ///< of the disk, or of max_disk_bytes, whichever is fuller
  std::uint64_t compactions_running = 0;
  std::uint64_t snapshots = 0;
  Millis oldest_snapshot = 0;  ///< engine time at which it was taken; 0 = there is none
  std::uint64_t leases_revoked = 0;
  std::uint64_t scrub_bytes = 0;   ///< Settings::scrub_interval, since open: read and checked
  std::uint64_t scrub_errors = 0;  ///< faults of tables found by that and by Db::verify(), since open; the listener was notified
  /// Trees that were found out of their policy's bounds (runs, capacities, depth) when nothing was left to merge, since open: a
  /// fault of the policy's, named to the EventListener.
  std::uint64_t bounds_broken = 0;
  std::uint64_t quarantined_files = 0;  ///< tables that are damaged or missing: TreeInfo::quarantined has them by database
  // deletes that were not gone from the files by their deadline, since open, by reason: the server had been down, the clock had
  // stepped, the disk had no room or failed, a quarantined file holds them, or none of these, which is a fault
  std::uint64_t deadlines_missed_down = 0, deadlines_missed_clock = 0, deadlines_missed_disk = 0;
  std::uint64_t deadlines_missed_damage = 0, deadlines_missed_load = 0;
  std::uint64_t dropped_trees = 0;  ///< of emptied databases, in the manifest still
  SeqNum visible_seq = 0, logged_seq = 0, synced_seq = 0;
  Millis engine_time = 0;
  bool clock_step_refused = false;  ///< the wall clock went forward by more than a day, and engine time does not follow it
  bool read_only = false;
  std::string read_only_reason;
};

/// What Db::verify found.
struct VerifyReport {
  std::uint64_t files = 0, pages = 0, entries = 0, bytes = 0;
  std::vector<std::string> errors;  ///< each names file and offset
};

/// What Db::checkpoint made.
struct CheckpointReport {
  SeqNum seq = 0;                  ///< every operation up to it is in the checkpoint; some later ones may be
  Millis time = 0;                 ///< engine time
  std::uint64_t files = 0;         ///< of tables and log
  std::uint64_t bytes = 0;         ///< of those files, links included
  std::uint64_t bytes_copied = 0;  ///< of those that could not be links
  std::uint64_t damaged = 0;       ///< tables that were quarantined: the checkpoint has what is left of them, and opens so
};

}  // namespace ebbtide
