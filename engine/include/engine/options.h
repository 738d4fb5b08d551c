// The engine's settings, and its replaceable components.
//
// Settings are values: what the YAML says, validated as a whole. Components are the seams to the outside world (files, clock,
// background threads, listener), with real, simulated and fault-injecting forms.
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
/// Which lookups filter memory is spread for: those that there were, or lookups of keys that do not exist.
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
  /// Bytes of memory for the filters of the tree, 64 KiB to 1 TiB, whatever its entries, but at most 32 bits for each; 0 = as
  /// many as filter_bits_per_key says.
  std::uint64_t filter_memory = 0;
  FilterLookups filter_lookups = FilterLookups::kMeasured;
  /// After so long whatever was deleted is out of all files; 0 = no promise, else 1 s to 10 years. A change leaves what was
  /// promised before: see deletes/deadline.h.
  Millis delete_deadline = 24ull * 3600 * 1000;
  /// Bytes per second that merges for delete deadlines may read and write, 16 KiB to 64 GiB; 0 = no limit. It gives way before a
  /// deadline is missed: see DeadlineBudget in db/trees/deadline_budget.h.
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
  bool io_uring = true;                                   ///< missing pages are read by it where the system allows that
  std::uint32_t fetch_threads = 4;                        ///< readers of missing pages where it does not, and of large values
  std::uint64_t wal_segment_size = std::uint64_t{64} << 20;
  /// ms in which every table is read from the drive and checked, one after another; 0 = never. What is wrong is said to the
  /// EventListener and counted (Stats::scrub_errors); no data is changed.
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

/// The engine's seams. Null means "the real one"; none is owned; all must outlive the Db. With a `background` pool given the
/// engine starts no thread of its own: the log is written and synced, and pages are fetched, on the calling thread, and
/// time-driven work waits for Db::tick(). So a test decides what happens when.
struct Components {
  FileSystem* fs = nullptr;
  Clock* clock = nullptr;
  BackgroundPool* background = nullptr;
  EventListener* events = nullptr;
  std::uint64_t seed = 0;  ///< of every random decision; 0 = from the system
};

}  // namespace ebbtide
