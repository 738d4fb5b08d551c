// What the benches ask of an engine, Ebbtide's or RocksDB's, and how both are opened with the same memory, files and promises.
//
// Held equal: the memtable, the block cache, filter bits a key, pages of 4 KiB, no compression, a log that is written at each
// put but never synced, as many threads for merges, and one for flushes. Where `size_ratio` is given, the trees are alike too:
// level 0 goes down at four runs, level 1 has size_ratio memtables, four at least, every further one size_ratio times as much, and
// files are as large as a memtable. All else is each engine's default.
//
// Errors end the program: a figure of what comes after one would mean nothing.
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
  std::uint64_t entries = 0;  ///< about how many there will be: filters and indexes need memory beside the cache
  bool direct_reads = false;  ///< past the system's page cache
  unsigned merge_threads = 2;
  double size_ratio = 0;         ///< 0: each engine's default tree
  double filter_bits = 10;       ///< a key; 0: no filters
  std::uint64_t file_bytes = 0;  ///< of a table; 0: with size_ratio as large as a memtable, else each engine's default

  // Ebbtide
  std::string policy = "one_leveling";
  std::map<std::string, double> policy_parameters{};  ///< but for size_ratio
  std::uint32_t pages_per_tile = 1;
  Millis delete_deadline = Millis{24} * 3600 * 1000;
  bool monkey = false;            ///< filter bits by level, in place of the same for all
  bool measured_lookups = false;  ///< with monkey: for the lookups that there were, in place of those of absent keys
  bool stamps = false;            ///< entries carry the stamp that put_stamped() is given

  // RocksDB
  std::uint64_t ttl_seconds = 0;       ///< 0: its default, 30 days
  std::uint64_t periodic_seconds = 0;  ///< 0: its default
  bool delete_collector = false;       ///< CompactOnDeletionCollector
  bool dynamic_levels = false;         ///< level_compaction_dynamic_level_bytes
};

/// What an engine says it has done since it was opened.
struct EngineCounters {
  std::uint64_t flushed_bytes = 0, merged_bytes_read = 0, merged_bytes_written = 0;
  std::uint64_t merges = 0;
};

/// What lies on a level that has files.
struct LevelCounts {
  int level = 0;
  std::uint64_t runs = 0, files = 0, bytes = 0;
};

/// One version of a key as it lies in a table.
struct StoredVersion {
  Bytes key;
  bool tombstone = false;
  std::uint64_t bytes = 0;  ///< of key and value
};

/// Calls from one thread; counters(), tombstones() from any until it is frozen.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual void put(Bytes key, Bytes value) = 0;
  virtual void del(Bytes key) = 0;
  virtual bool get(Bytes key) = 0;
  static constexpr std::size_t kSpan = 16;
  /// How many of kSpan keys exist.
  virtual std::size_t get_span(const Key* keys) = 0;
  /// Seeks and moves on up to `length` times; how many entries it saw. What is written later than the first scan is not seen.
  virtual std::size_t scan(Bytes key, std::size_t length) = 0;
  /// The next scan sees all that was written so far, as the first one does.
  virtual void renew_scan() = 0;
  /// Until nothing is left to flush into order or to merge: nothing has run at so many looks in a row (wait_for_rest()).
  virtual void settle_after(int looks) = 0;
  void settle() { settle_after(kRestLooks); }
  /// Puts what is in memory into tables and stops merges, for good, those for deadlines too: from here on the tables stay what
  /// they are. Nothing may be written any more.
  virtual void freeze() = 0;
  /// Where its files are; another place once it is frozen, perhaps, beside the first.
  [[nodiscard]] virtual const std::string& dir() const = 0;
  /// Every version in the tables of a frozen engine, in no order.
  virtual void visit(const std::function<void(const StoredVersion&)>& visitor) = 0;
  [[nodiscard]] virtual EngineCounters counters() = 0;
  /// Pages that lookups and scans of this thread had to read, as they were not in the cache.
  [[nodiscard]] virtual std::uint64_t pages_read() = 0;
  /// Tombstones in tables.
  [[nodiscard]] virtual std::uint64_t tombstones() = 0;
  /// Smallest level first.
  [[nodiscard]] virtual std::vector<LevelCounts> levels() = 0;
  /// Filter memory by entries of tables.
  [[nodiscard]] virtual double filter_bits_per_key() = 0;
  /// An entry that can be deleted by its stamp, where setup.stamps is set. `value` has room for 8 bytes at its beginning, which
  /// an engine without stamps of its own overwrites.
  virtual void put_stamped(Bytes key, std::string* value, std::uint64_t stamp) = 0;
};

/// How much of the deadline the oldest delete has used up, and what was not gone in time; an engine without deadlines has nothing
/// to say.
struct DeadlineState {
  bool known = false;
  double used = 0;  ///< 1: it is due now
  std::uint64_t missed = 0;
  std::uint64_t missed_by_load = 0;  ///< of these, those that neither a stop nor the clock explains
};

/// Ebbtide's own side, for what RocksDB has nothing of.
class EbbtideEngine : public Engine {
 public:
  [[nodiscard]] virtual DeadlineState deadlines() = 0;
  struct Purge {
    double logical_us = 0;  ///< until no reader finds a key with such a stamp
    double seconds = 0;     ///< until none is left in any file
    std::uint64_t pages_whole = 0, pages_in_part = 0;
    std::uint64_t rewritten_bytes = 0;  ///< by merges meanwhile
  };
  /// Deletes every key with a stamp below `end` and has it gone from the files now.
  virtual Purge purge_stamps(std::uint64_t end) = 0;
};

/// RocksDB's ways to delete by what is in the value.
class RocksEngine : public Engine {
 public:
  /// Reads everything, deletes what has a stamp below `end`, and has all of it compacted.
  virtual void scan_and_delete(std::uint64_t end) = 0;
  /// Has all of it compacted by a filter that takes out what has a stamp below `end`.
  virtual void filter_out(std::uint64_t end) = 0;
};

std::unique_ptr<EbbtideEngine> open_ebbtide(const EngineSetup& setup);
std::unique_ptr<RocksEngine> open_rocksdb(const EngineSetup& setup);
/// "ebbtide" or "rocksdb".
std::unique_ptr<Engine> open_engine(const std::string& name, const EngineSetup& setup);

}  // namespace ebbtide::bench
