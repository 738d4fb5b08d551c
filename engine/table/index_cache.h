// The tables whose index and filter are in memory, within a bound.
//
// An open table has a small resident part: its names, sizes and statistics by the manifest. The rest of its metadata (TableIndex,
// LoadedFilter) is one unit. It is read from the metadata file when it is first needed, and leaves memory again when all units
// together exceed the capacity. CLOCK chooses: a table that was searched since the last look is passed over. So tables of level
// 0, which nearly every lookup asks, stay. A pinned unit stays (TableReader::pinned).
//
// Pins can exceed the capacity: each client that waits for a page of a cold table has one. Beyond kMostPinned tables the cache is
// crowded(), and searches that can be repeated get no pin.
//
// Readers see a unit through one pointer, without a lock. A unit that leaves memory is freed when all EpochGuards of that moment
// have ended.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "base/epoch.h"
#include "base/mutex.h"

namespace ebbtide {

class TableReader;       // table/table_reader.h
struct TableReaderImpl;  // table/table_reader_impl.h

/// Thread-safe. Outlives all use of the readers, but not the readers.
class IndexCache {
 public:
  static constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

  explicit IndexCache(Epoch& epoch) : epoch_(epoch) {}
  ~IndexCache();
  IndexCache(const IndexCache&) = delete;
  IndexCache& operator=(const IndexCache&) = delete;

  /// At first there is no limit. Units leave at once if there are too many. Pinned ones may exceed it.
  void set_capacity(std::uint64_t bytes);

  /// Pinned tables beyond the capacity that are no crowd: more than the runs of a tree, each of which one lookup may need.
  static constexpr std::size_t kMostPinned = 128;
  /// True if pinned units exceed the capacity and are more than kMostPinned.
  [[nodiscard]] bool crowded() const { return crowded_.load(std::memory_order_relaxed); }

  struct Counts {
    std::uint64_t capacity = 0;
    std::uint64_t bytes = 0;    ///< of the units in memory
    std::uint64_t tables = 0;   ///< that have theirs in memory
    std::uint64_t loads = 0;    ///< units read so far
    std::uint64_t unloads = 0;  ///< units that left memory while their table was open
  };
  [[nodiscard]] Counts counts() const;

 private:
  friend class TableReader;
  friend struct TableReaderImpl;
  using Retired = std::vector<std::shared_ptr<const void>>;

  // Both measure the table under the mutex: its filter may be exchanged between its load and add().
  void add(const TableReaderImpl& table);
  void resize(const TableReaderImpl& table);
  void remove(const TableReaderImpl& table);
  /// A pin has ended.
  void note_unpinned() {
    if (crowded()) shrink();
  }
  void shrink();
  [[nodiscard]] Retired evict() REQUIRES(mutex_);
  void retire(Retired retired);

  Epoch& epoch_;
  mutable Mutex mutex_;  ///< before a table's
  std::uint64_t capacity_ GUARDED_BY(mutex_) = kNoLimit, bytes_ GUARDED_BY(mutex_) = 0;
  std::uint64_t loads_ GUARDED_BY(mutex_) = 0, unloads_ GUARDED_BY(mutex_) = 0;
  std::list<const TableReaderImpl*> tables_ GUARDED_BY(mutex_);  ///< the front is looked at first
  std::atomic<bool> crowded_{false};                             ///< written under the mutex
};

}  // namespace ebbtide
