// The engine's settings, and its replaceable components.
//
// Settings are the values of the YAML, validated as a whole. Components are the interfaces to files, clock, background threads
// and listener. Each has a real form, and forms for tests: simulated, or with injected faults.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <engine/status.h>
#include <engine/types.h>

namespace ebbtide {

class FileSystem;      // io/file_system.h
class Clock;           // base/clock.h
class BackgroundPool;  // base/background_pool.h
class EventListener;   // events.h

enum class FsyncMode : std::uint8_t { kAlways, kEverySecond, kNo };
/// Numbers are part of the file formats.
enum class Compression : std::uint8_t { kNone = 0, kLz4 = 1, kZstd = 2 };
enum class FileChoice : std::uint8_t { kRoundRobin, kLeastOverlap, kMostTombstones, kOldest };
/// Where the files of a merge's output end: engine/docs/policies.md.
enum class Partitioning : std::uint8_t { kSize, kLocalRange, kGlobalRange };
enum class FilterAllocation : std::uint8_t { kMonkey, kUniform };
/// The lookups for which filter memory is distributed over the runs: the measured mix, or only lookups of keys that do not exist.
enum class FilterLookups : std::uint8_t { kMeasured, kZeroResult };

/// The merge policy by name, and its parameters by name. policy/registry checks both.
struct PolicySettings {
  std::string name = "one_leveling";
  std::map<std::string, double> parameters;  ///< those left out take the policy's defaults
};

/// Settings of one tree. All may change while the tree is in use, unless said otherwise.
struct TreeSettings {
  PolicySettings policy;
  std::uint64_t file_size = std::uint64_t{64} << 20;  ///< bytes of a data file, 64 KiB to 4 GiB; it may get half as large again
  std::uint32_t page_size = 4096;    ///< bytes of a page, 1 KiB to 64 KiB; before compression at h = 1, else after it
  std::uint32_t pages_per_tile = 1;  ///< h of KiWi, 1 to 64; 0 = by measurement (deletes/tile_size.h)
  FileChoice file_choice = FileChoice::kLeastOverlap;
  Partitioning partitioning = Partitioning::kSize;
  FilterAllocation filter_allocation = FilterAllocation::kMonkey;
  double filter_bits_per_key = 10;  ///< of all keys of the tree on average, 0 to 32; 0 = no filters
  /// Bytes of memory for the tree's filters, 64 KiB to 1 TiB, for any number of entries, but at most 32 bits per entry. 0 =
  /// filter_bits_per_key decides.
  std::uint64_t filter_memory = 0;
  FilterLookups filter_lookups = FilterLookups::kMeasured;
  /// Time after which deleted data is purged from all files, 1 s to 10 years; 0 = no promise. A change does not affect earlier
  /// promises (deletes/deadline.h).
  Millis delete_deadline = 24ull * 3600 * 1000;
  /// Bytes per second that merges for delete deadlines may read and write, 16 KiB to 64 GiB; 0 = no limit. The engine exceeds it
  /// rather than miss a deadline (DeadlineBudget in db/trees/deadline_budget.h).
  std::uint64_t delete_io_budget = 0;
  StampMode stamp = StampMode::kWriteTime;  ///< fixed for the life of a tree
  Compression compression = Compression::kLz4;
  Compression compression_last_level = Compression::kZstd;
};

struct Settings {
  std::string dir = "./data";
  FsyncMode fsync = FsyncMode::kEverySecond;
  std::uint32_t databases = 16;
  std::uint64_t memory_budget = std::uint64_t{1} << 30;   ///< bytes for memtables, cache, filters, indexes, MemoryAccount
  std::uint64_t memtable_size = std::uint64_t{64} << 20;  ///< bytes at which a memtable is frozen
  std::uint64_t block_cache = 0;                          ///< bytes; 0 = what the budget leaves
  std::uint64_t max_disk_bytes = 0;                       ///< bytes the data directory may use; 0 = keep 5 % of the disk free
  bool direct_io = false;                                 ///< table reads bypass the page cache
  std::uint32_t background_threads = 1;                   ///< compactions; flushes have a thread of their own
  bool io_uring = true;                                   ///< event loops read missing pages by io_uring if the system allows it
  std::uint32_t fetch_threads = 4;                        ///< threads that read large values, and missing pages without io_uring
  std::uint64_t max_open_files = 0;                       ///< files of tables that are open at a time; 0 = no limit
  std::uint64_t wal_segment_size = std::uint64_t{64} << 20;
  /// ms in which the scrub reads every table from the drive and checks it; 0 = never. Faults are reported to the EventListener
  /// and counted (Stats::scrub_errors). No data is changed.
  Millis scrub_interval = 30 * Millis{86'400'000};
  bool accept_clock = false;                     ///< open although the wall clock is far past the persisted mark
  TreeSettings tree;                             ///< default of every database
  std::map<DatabaseId, TreeSettings> overrides;  ///< by database, whole

  [[nodiscard]] const TreeSettings& tree_for(DatabaseId database) const {
    auto it = overrides.find(database);
    return it == overrides.end() ? tree : it->second;
  }
};

/// Checks every value against its range: kInvalidArgument names the key, the value and what is allowed.
Status validate(const TreeSettings& settings);
/// Checks name and parameters of a merge policy: kInvalidArgument names the policy or parameter, the value and what is allowed.
Status validate(const PolicySettings& settings);
Status validate(const Settings& settings);

/// The engine's interfaces to the outside. Null means the real one. The Db owns none; all must outlive it. If `background` is
/// set, the engine starts no thread: the calling thread writes and syncs the log and fetches pages, and timed work waits for
/// Db::tick(). So a test decides the order of events.
struct Components {
  FileSystem* fs = nullptr;
  Clock* clock = nullptr;
  BackgroundPool* background = nullptr;
  EventListener* events = nullptr;
  std::uint64_t seed = 0;  ///< of every random decision; 0 = from the system
};

}  // namespace ebbtide
