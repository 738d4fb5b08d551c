// Limits the memory of the indexes and filters of open tables.
//
// An open table always has in memory its file names, and its sizes and statistics from the manifest. The other metadata
// (TableIndex, LoadedFilter) is one *unit*, which is read from the metadata file when it is first needed. When all units
// together exceed the capacity, the cache unloads some. It chooses by CLOCK: a table that was searched since CLOCK last
// examined it is skipped once. So tables of level 0, which nearly every lookup searches, stay in memory. Pinned units are not
// unloaded (TableReader::pinned).
//
// Pinned units can exceed the capacity, since each client that waits for a page of a cold table has a pin. If they do, and there
// are more than kMostPinned of them, the cache is crowded(), and searches that can be repeated get no pin.
//
// Readers see a unit through one pointer, without a lock. An unloaded unit is freed when all EpochGuards that existed at the
// unload have ended.
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

/// Thread-safe. No reader may be used after the cache is destroyed, but readers may be destroyed after it.
class IndexCache {
 public:
  static constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

  explicit IndexCache(Epoch& epoch) : epoch_(epoch) {}
  ~IndexCache();
  IndexCache(const IndexCache&) = delete;
  IndexCache& operator=(const IndexCache&) = delete;

  /// Sets the capacity, which is unlimited at first. Unloads units at once if they exceed it; pinned units may still exceed it.
  void set_capacity(std::uint64_t bytes);

  /// The cache is never crowded() with at most this many tables in memory. One lookup may need a table of each run of a tree, and
  /// most trees have fewer runs.
  static constexpr std::size_t kMostPinned = 128;
  /// Returns true if pinned units exceed the capacity and there are more than kMostPinned of them.
  [[nodiscard]] bool crowded() const { return crowded_.load(std::memory_order_relaxed); }

  struct Counts {
    std::uint64_t capacity = 0;
    std::uint64_t bytes = 0;    ///< bytes of the units in memory
    std::uint64_t tables = 0;   ///< number of tables whose unit is in memory
    std::uint64_t loads = 0;    ///< units that were read into memory so far
    std::uint64_t unloads = 0;  ///< units that the cache has unloaded so far
  };
  [[nodiscard]] Counts counts() const;

 private:
  friend class TableReader;
  friend struct TableReaderImpl;
  using Retired = std::vector<std::shared_ptr<const void>>;

  // add() is called after a table's index and filters (its unit) were loaded, resize() when the unit's size has changed, and
  // remove() when the table is closed. add() and resize() read the unit's size while they hold the mutex, since keep_slices() may
  // replace the filter between load() and add().
  void add(const TableReaderImpl& table);
  void resize(const TableReaderImpl& table);
  void remove(const TableReaderImpl& table);
  /// After a pin has ended: if the cache is crowded, unloads units that are no longer pinned.
  void note_unpinned() {
    if (crowded()) shrink();
  }
  void shrink();
  [[nodiscard]] Retired evict() REQUIRES(mutex_);
  void retire(Retired retired);

  Epoch& epoch_;
  mutable Mutex mutex_;  ///< lock it before TableReaderImpl::mutex
  std::uint64_t capacity_ GUARDED_BY(mutex_) = kNoLimit, bytes_ GUARDED_BY(mutex_) = 0;
  std::uint64_t loads_ GUARDED_BY(mutex_) = 0, unloads_ GUARDED_BY(mutex_) = 0;
  std::list<const TableReaderImpl*> tables_ GUARDED_BY(mutex_);  ///< CLOCK's order: evict() examines the front first
  std::atomic<bool> crowded_{false};                             ///< written under the mutex
};

}  // namespace ebbtide
