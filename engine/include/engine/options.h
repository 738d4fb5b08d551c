// The engine's settings, and its replaceable components.
//
// Settings have the values of the server's YAML file; validate() checks them together. Components are the interfaces to files,
// clock, background threads and listener. Each interface has a real implementation, and implementations for tests that simulate
// it or inject faults.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <engine/points.h>
#include <engine/status.h>
#include <engine/types.h>

namespace ebbtide {

class FileSystem;      // io/file_system.h
class Clock;           // base/clock.h
class BackgroundPool;  // base/background_pool.h
class EventListener;   // events.h

enum class FsyncMode : std::uint8_t { kAlways, kEverySecond, kNo };
/// The numbers are part of the file formats.
enum class Compression : std::uint8_t { kNone = 0, kLz4 = 1, kZstd = 2 };
enum class FileChoice : std::uint8_t { kRoundRobin, kLeastOverlap, kMostTombstones, kOldest };
/// The way in which a merge chooses the keys at which its output files end: engine/docs/policies.md.
enum class Partitioning : std::uint8_t { kSize, kLocalRange, kGlobalRange };
enum class FilterAllocation : std::uint8_t { kMonkey, kUniform };
/// The lookups for which FilterAllocation::kMonkey distributes filter memory over the runs: the measured mix of lookups, or
/// only lookups of keys that do not exist.
enum class FilterLookups : std::uint8_t { kMeasured, kZeroResult };

/// The name of the merge policy, and its parameters by name. policy/registry.h checks both.
struct PolicySettings {
  std::string name = "one_leveling";
  std::map<std::string, double> parameters;  ///< parameters that are left out have the policy's defaults

  bool operator==(const PolicySettings&) const = default;
};

/// Settings of one tree. All may change while the tree is in use, unless a comment says otherwise.
struct TreeSettings {
  PolicySettings policy;
  /// Size in bytes at which the database's memtable is frozen and flushed, 16 KiB to 16 GiB. A change takes effect with the
  /// next write.
  std::uint64_t memtable_size = std::uint64_t{64} << 20;
  /// Intended size of a data file in bytes, 64 KiB to 4 GiB. A file may be up to half as large again.
  std::uint64_t file_size = std::uint64_t{64} << 20;
  /// Size of a page in bytes, 1 KiB to 64 KiB: before compression if pages_per_tile is 1, otherwise after compression.
  std::uint32_t page_size = 4096;
  std::uint32_t pages_per_tile = 1;  ///< pages of a delete tile (Lethe's h), 1 to 64; 0 = chosen from measured lookups
  FileChoice file_choice = FileChoice::kLeastOverlap;
  Partitioning partitioning = Partitioning::kSize;
  FilterAllocation filter_allocation = FilterAllocation::kMonkey;
  double filter_bits_per_key = 10;  ///< average over all keys of the tree, 0 to 32; 0 = no filters
  /// Bytes of memory for all filters of the tree, 64 KiB to 1 TiB; the filters never use more than 32 bits per entry. 0:
  /// filter_bits_per_key decides.
  std::uint64_t filter_memory = 0;
  FilterLookups filter_lookups = FilterLookups::kMeasured;
  /// Longest time from a delete until its data is purged from all files, in ms: 1 s to 10 years; 0 = no promise. A change may
  /// make earlier deletes due earlier, but never later (deletes/deadline.h).
  Millis delete_deadline = 24ull * 3600 * 1000;
  /// Bytes per second that merges for delete deadlines may read and write, 16 KiB to 64 GiB; 0 = no limit. The engine exceeds the
  /// budget rather than miss a deadline (DeadlineBudget in db/trees/deadline_budget.h).
  std::uint64_t delete_io_budget = 0;
  StampMode stamp = StampMode::kWriteTime;  ///< an existing tree keeps its mode
  /// Offset of the points in the tree's keys, 0 to 64, or kNoPoints (engine/points.h). Tables written with an offset store bounds
  /// of their points.
  std::uint32_t points_at = kNoPoints;
  Compression compression = Compression::kLz4;
  Compression compression_last_level = Compression::kZstd;
};

/// The settings that the definition of an index determines. All other settings of an index tree are those of its database,
/// without filters.
struct IndexTreeOptions {
  std::uint32_t points_at = kNoPoints;   ///< TreeSettings::points_at
  std::optional<PolicySettings> policy;  ///< no value: the policy of the database
};

struct Settings {
  std::string dir = "./data";
  FsyncMode fsync = FsyncMode::kEverySecond;
  std::uint32_t databases = 16;
  std::uint64_t memory_budget = std::uint64_t{1} << 30;  ///< bytes for memtables, cache, filters, indexes, MemoryAccount
  std::uint64_t block_cache = 0;                         ///< bytes; 0 = all of memory_budget that its other users leave
  std::uint64_t max_disk_bytes = 0;                      ///< bytes that the data directory may use; 0 = keep 5 % of the disk free
  bool direct_io = false;                                ///< true: table reads bypass the system page cache
  std::uint32_t background_threads = 1;                  ///< threads for compactions; flushes have threads of their own
  bool io_uring = true;              ///< true: event loops read missing pages by io_uring if the system allows it
  std::uint32_t fetch_threads = 4;   ///< threads that read large values and, without io_uring, missing pages
  std::uint64_t max_open_files = 0;  ///< table files that may be open at a time; 0 = no limit
  std::uint64_t wal_segment_size = std::uint64_t{64} << 20;
  /// Milliseconds in which the scrub reads each table from the drive once and checks it; 0 = no scrub. Faults are reported to
  /// the EventListener and counted (Stats::scrub_errors). The scrub changes no data.
  Millis scrub_interval = 30 * Millis{86'400'000};
  /// True to keep the history of the workload (Db::workload) over restarts, in the file WORKLOAD in `dir`.
  bool keep_workload = false;
  bool accept_clock = false;  ///< true: open the database even if the wall clock is far past the persisted mark
  TreeSettings tree;          ///< the settings of every database that is not in `overrides`
  std::map<DatabaseId, TreeSettings> overrides;  ///< by database number; an entry replaces all of `tree`

  [[nodiscard]] const TreeSettings& tree_for(DatabaseId database) const {
    auto it = overrides.find(database);
    return it == overrides.end() ? tree : it->second;
  }
};

/// Checks every value against its range. The message of kInvalidArgument names the setting, its value and the allowed range.
Status validate(const TreeSettings& settings);
/// Checks the name and the parameters of a merge policy. The message of kInvalidArgument names the policy or parameter, the
/// value and the allowed values.
Status validate(const PolicySettings& settings);
Status validate(const Settings& settings);

/// The engine's interfaces to the outside. Null means the real implementation. The Db owns none of them; all must outlive the Db.
/// If `background` is set, the engine starts no thread: the calling thread writes and syncs the log and fetches pages, and timed
/// work waits for Db::tick(). So a test decides the order of events.
struct Components {
  FileSystem* fs = nullptr;
  Clock* clock = nullptr;
  BackgroundPool* background = nullptr;
  EventListener* events = nullptr;
  std::uint64_t seed = 0;  ///< seed of all random numbers; 0 = a random seed from the system
};

}  // namespace ebbtide
