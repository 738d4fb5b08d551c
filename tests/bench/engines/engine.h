// The engine interface of the benchmarks, implemented by Ebbtide and RocksDB, and their common set-up.
//
// Equal for both are the memtable, the block cache, filter bits a key on average, pages of 4 KiB, and no compression. The log is
// written at each put but never synced. Each has as many merge threads, and one flush thread. With `size_ratio`, the trees are alike,
// too: level 0 is merged down at four runs; level 1 has size_ratio memtables (at least four), and every further level size_ratio times
// as much; files are as large as a memtable. Everything else is each engine's default.
//
// Errors end the program, since later figures would mean nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <engine/types.h>
#include "bench/engines/data.h"
#include "bench/engines/measure.h"

namespace ebbtide::bench {

struct EngineSetup {
  std::string dir;
  std::uint64_t memtable_bytes = std::uint64_t{64} << 20;
  std::uint64_t cache_bytes = 0;
  std::uint64_t entries = 0;  ///< expected number, for the memory of filters and indexes
  bool direct_reads = false;  ///< past the system's page cache
  unsigned merge_threads = 2;
  double size_ratio = 0;         ///< 0: each engine's default tree
  double filter_bits = 10;       ///< per key; 0: no filters
  std::uint64_t file_bytes = 0;  ///< size of a table; 0: the size of a memtable with size_ratio, otherwise each engine's default

  // Used by Ebbtide only.
  std::string policy = "one_leveling";
  std::map<std::string, double> policy_parameters{};  ///< parameters of the policy, without size_ratio
  std::uint32_t pages_per_tile = 1;
  Millis delete_deadline = Millis{24} * 3600 * 1000;
  bool monkey = true;             ///< filter bits by level, the shipped default, instead of uniform
  bool measured_lookups = false;  ///< with monkey: for the measured lookups instead of absent keys
  bool stamps = false;            ///< entries have the stamp passed to put_stamped()

  // Used by RocksDB only.
  std::uint64_t ttl_seconds = 0;       ///< 0: RocksDB's default, 30 days
  double level1_memtables = 0;         ///< without size_ratio: level 1 has so many memtables; 0: RocksDB's default, 256 MiB
  std::uint64_t periodic_seconds = 0;  ///< 0: its default
  bool delete_collector = false;       ///< CompactOnDeletionCollector
  bool dynamic_levels = false;         ///< level_compaction_dynamic_level_bytes
  std::vector<int>
      multipliers{};  ///< factors of the capacities of level 1, level 2 ... (max_bytes_for_level_multiplier_additional)
};

/// Counters of an engine since it was opened.
struct EngineCounters {
  std::uint64_t flushed_bytes = 0, merged_bytes_read = 0, merged_bytes_written = 0;
  std::uint64_t merges = 0, flushes = 0;
};

/// The counts of a level that has files.
struct LevelCounts {
  int level = 0;
  std::uint64_t runs = 0, files = 0, bytes = 0;
};

/// One version of a key in a table.
struct StoredVersion {
  Bytes key;
  bool tombstone = false;
  std::uint64_t bytes = 0;  ///< bytes of key and value
};

/// Used by one thread, except for counters() and tombstones(), which any thread may call until freeze().
class Engine {
 public:
  virtual ~Engine() = default;
  virtual void put(Bytes key, Bytes value) = 0;
  virtual void del(Bytes key) = 0;
  virtual bool get(Bytes key) = 0;
  static constexpr std::size_t kSpan = 16;
  /// Looks up kSpan keys. Returns the number of those that exist.
  virtual std::size_t get_span(const Key* keys) = 0;
  /// Seeks and moves on up to `length` times. Returns the number of entries. Scans do not see writes after the first scan.
  virtual std::size_t scan(Bytes key, std::size_t length) = 0;
  /// Makes the next scan see all writes so far.
  virtual void renew_scan() = 0;
  /// Waits until merges are at rest: nothing ran at `looks` checks in a row (wait_for_rest()).
  virtual void rest(int looks) = 0;
  /// Flushes, then rest().
  virtual void settle_after(int looks) = 0;
  void settle() { settle_after(kRestLooks); }
  /// Flushes memory to tables and stops all merges permanently, also those for deadlines, so tables no longer change. No write
  /// may follow.
  virtual void freeze() = 0;
  /// Returns the directory of the files; freeze() may change it to another directory beside the first.
  [[nodiscard]] virtual const std::string& dir() const = 0;
  /// Visits every version in the tables of a frozen engine, unordered.
  virtual void visit(const std::function<void(const StoredVersion&)>& visitor) = 0;
  [[nodiscard]] virtual EngineCounters counters() = 0;
  /// Returns the number of pages that lookups and scans of this thread read because the cache did not have them.
  [[nodiscard]] virtual std::uint64_t pages_read() = 0;
  /// Returns the number of tombstones in tables.
  [[nodiscard]] virtual std::uint64_t tombstones() = 0;
  /// Returns the levels, smallest first.
  [[nodiscard]] virtual std::vector<LevelCounts> levels() = 0;
  /// Returns the filter memory divided by the entries of tables.
  [[nodiscard]] virtual double filter_bits_per_key() = 0;
  /// Puts an entry that can be deleted by its stamp; requires setup.stamps. An engine without stamps overwrites the first 8 bytes
  /// of `value` with the stamp.
  virtual void put_stamped(Bytes key, std::string* value, std::uint64_t stamp) = 0;
};

/// The part of the deadline that the oldest delete has used, and the missed deadlines. Unknown for an engine without deadlines.
struct DeadlineState {
  bool known = false;
  double used = 0;  ///< 1: due now
  std::uint64_t missed = 0;
  std::uint64_t missed_by_load = 0;  ///< missed deadlines that neither a stop nor the clock explains
};

/// Operations that only Ebbtide has.
class EbbtideEngine : public Engine {
 public:
  [[nodiscard]] virtual DeadlineState deadlines() = 0;
  struct Purge {
    double logical_us = 0;  ///< time until no reader finds a deleted key
    double seconds = 0;     ///< time until no file has a deleted key
    std::uint64_t pages_whole = 0, pages_in_part = 0;
    std::uint64_t rewritten_bytes = 0;  ///< bytes rewritten by merges meanwhile
  };
  /// Deletes every key with a stamp below `end` and purges it from the files now.
  virtual Purge purge_stamps(std::uint64_t end) = 0;
};

/// RocksDB's ways to delete by a part of the value.
class RocksEngine : public Engine {
 public:
  /// Reads all entries, deletes those with a stamp below `end`, and compacts everything.
  virtual void scan_and_delete(std::uint64_t end) = 0;
  /// Compacts everything with a filter that drops entries with a stamp below `end`.
  virtual void filter_out(std::uint64_t end) = 0;
};

std::unique_ptr<EbbtideEngine> open_ebbtide(const EngineSetup& setup);
std::unique_ptr<RocksEngine> open_rocksdb(const EngineSetup& setup);
/// Opens the engine `name`: "ebbtide" or "rocksdb".
std::unique_ptr<Engine> open_engine(const std::string& name, const EngineSetup& setup);

}  // namespace ebbtide::bench
