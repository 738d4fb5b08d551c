// The members of a TableReader, shared by its facets, iterator and verify. Other layers must not include this file.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/planted_bug.h"
#include "table/index_cache.h"
#include "table/large_value.h"
#include "table/loaded_filter.h"
#include "table/metadata.h"
#include "table/page.h"
#include "table/table_index.h"
#include "table/table_reader.h"

namespace ebbtide {

struct TableReaderImpl {
  // --- constant after construction
  TableReader* reader = nullptr;        ///< the reader that owns this object
  const TableLookup* lookup = nullptr;  ///< `reader` as a TableLookup, for references to large values
  TableReaderOptions options;
  TableFiles files;
  std::string data_path, metadata_path;
  TableStats stats;

  // --- set by the first load, before `index` is; then constant
  mutable std::unique_ptr<RandomAccessFile> data, metadata;  ///< `metadata` is open only if the metadata file has replaced pages
  mutable std::uint32_t unit = kSmallUnit;
  mutable std::vector<SliceInfo> slices;  ///< all slices of the filter
  mutable std::atomic<std::uint32_t> tile_count{0};
  mutable std::atomic<std::uint32_t> h{0};  ///< 0 before the first load, which stores it last

  // --- unloaded and loaded again: read without a lock, under an EpochGuard or a pin
  mutable std::atomic<const TableIndex*> index{nullptr};
  mutable std::atomic<const LoadedFilter*> filter{nullptr};  ///< never null; while the index is not in memory, it denies no key
  mutable std::atomic<std::uint8_t> searches{0};  ///< searches since the load, at most 2 = hot (searched(), take_hot())

  std::atomic<std::uint32_t> wanted_slices{kAllSlices};  ///< slices that the next load keeps; changed under `mutex`
  std::atomic<bool> abandoned{false};  ///< true once the files may be unlinked: a missing file is then not damage
  mutable std::atomic<bool> failed{false};
  mutable Status why;  ///< the reason if `failed` is true; then constant

  mutable Mutex loading;  ///< locked while the index is read; lock it before `mutex`
  mutable Mutex mutex;
  mutable std::shared_ptr<const TableIndex> index_owner GUARDED_BY(mutex);
  mutable std::shared_ptr<const LoadedFilter> filter_owner GUARDED_BY(mutex);
  mutable std::uint32_t pins GUARDED_BY(mutex) = 0;
  // Large values that callers of read_large() still hold, so that other callers share them.
  mutable std::vector<std::pair<std::uint64_t, std::weak_ptr<const std::string>>> large
      GUARDED_BY(mutex);  ///< pairs of offset and value

  /// The index cache's data about this table. The index cache's mutex guards it.
  struct InCache {
    std::list<const TableReaderImpl*>::iterator place{};
    std::uint64_t bytes = 0;
    std::atomic<bool> listed{false};  ///< true if the cache lists the table; only then the destructor may use the cache
  };
  mutable InCache in_cache;

  TableReaderImpl();
  ~TableReaderImpl();
  TableReaderImpl(const TableReaderImpl&) = delete;
  TableReaderImpl& operator=(const TableReaderImpl&) = delete;

  /// Checks `bytes`, the content of the metadata file, and the data file, and puts index and filter into memory. If `described`
  /// is not null, sets it to the statistics in the metadata file.
  Status load(Bytes bytes, TableStats* described) const REQUIRES(loading);
  /// Carry out TableReader::pinned() and pinned_if_loaded().
  Result<std::shared_ptr<TableReader>> pinned() const EXCLUDES(loading, mutex);
  Result<std::shared_ptr<TableReader>> pinned(MissSet* misses) const EXCLUDES(loading, mutex);
  std::shared_ptr<TableReader> pinned_if_loaded() const EXCLUDES(mutex);
  /// Like pinned_if_loaded(). If the index is not in memory, sets wanted_slices to `count`. Check and change happen under one
  /// lock, so a concurrent load keeps `count` slices, or has ended before the call.
  std::shared_ptr<TableReader> pinned_or_wanting(std::uint32_t count) EXCLUDES(mutex);
  /// Returns the index for a search, and reads it if it is not in memory. The calling thread must hold an EpochGuard. Returns
  /// null if the index cannot be read; *status has the error. If `misses` is not null, the call does not read: if the index is
  /// not in memory, it adds a miss and returns null, with *status ok.
  const TableIndex* index_for(MissSet* misses, Status* status) const {
    const TableIndex* const now = index.load(std::memory_order_acquire);
    if (now == nullptr) [[unlikely]]
      return index_or_miss(misses, status);
    searched(false);
    return now;
  }
  /// Returns the index. Requires that it stays in memory: the caller has a pin, or there is no index cache. The index of an
  /// unreadable table is empty.
  [[nodiscard]] const TableIndex& held() const;
  /// Counts a search for the index cache's CLOCK: from the second search after a load on, a search makes the table hot. (The
  /// first search caused the load.) `ahead`: the search is a prefetch, which never counts as the first search, since a get()
  /// mostly follows.
  void searched(bool ahead) const {
    const std::uint8_t now = searches.load(std::memory_order_relaxed);
    if (now == 1 || (now == 0 && !ahead)) searches.store(static_cast<std::uint8_t>(now + 1), std::memory_order_relaxed);
  }
  /// Returns true if the table is hot (it was searched lately). Clears this state: the table is hot again after its next search.
  bool take_hot() const {
    std::uint8_t hot = 2;
    return searches.compare_exchange_strong(hot, 1, std::memory_order_relaxed);
  }
  /// Unloads index and filter: moves them to `retired`. Returns false if they are pinned or not in memory.
  bool unload(std::vector<std::shared_ptr<const void>>* retired) const EXCLUDES(mutex);
  /// Bytes of index and filter that are in memory.
  [[nodiscard]] std::uint64_t loaded_bytes() const EXCLUDES(mutex);
  /// Opens a file for as long as the reader lives.
  Result<std::unique_ptr<RandomAccessFile>> open_file(const std::string& path, const OpenOptions& how) const;
  /// Reports an error of a load, and returns it. After kCorruption each later read of the table returns the same error.
  Status fail(Status status) const;

  /// Decodes the content of the metadata file. Returns kCorruption if it is not the file that the manifest names.
  [[nodiscard]] Result<TableMetadata> check_metadata(Bytes bytes) const;
  /// Carries out TableInspector::load_metadata().
  [[nodiscard]] Result<TableMetadata> load_metadata() const;
  /// Carries out TableLookup::filter().
  [[nodiscard]] std::shared_ptr<const LoadedFilter> loaded_filter() const {
    MutexLock lock(mutex);
    return filter_owner;
  }

  /// Reports a read error to the damage sink, and returns it.
  Status report(Status status) const {
    const bool damage = status.code() == Code::kCorruption || status.code() == Code::kIoError;
    if (damage && options.damage != nullptr) options.damage->report(files.data_file, status);
    return status;
  }
  [[nodiscard]] BlockKey block_key(const PageInfo& page) const {
    if (planted(PlantedBug::kReadStalePage)) return {1, page.offset};
    return {page.replaced() ? files.metadata_file : files.data_file, page.offset};
  }
  [[nodiscard]] BlockPlace place(const PageInfo& page) const {
    return {page.replaced() ? &metadata_path : &data_path, page.replaced() ? files.metadata_file : files.data_file, page.offset};
  }
  [[nodiscard]] const RandomAccessFile* file_of(const PageInfo& page) const {
    return page.replaced() ? metadata.get() : data.get();
  }
  [[nodiscard]] LargeValueFile large_file() const { return {data.get(), &data_path, files.data_file, unit, files.data_bytes}; }
  /// Checks and decodes a page's block, and checks the page (check_page()). The result is a view of `block` or of `scratch`.
  Result<Bytes> decode_page(const PageInfo& page, Bytes block, std::string* scratch) const;
  /// Returns a page from the block cache, or reads it into the block cache. If `may_wait` is false, returns null if the read
  /// would wait for the device.
  Result<std::shared_ptr<const CachedBlock>> load_page(const PageInfo& page, bool may_wait, ReadCounters* counters) const;
  /// Returns a page for its reader: like load_page(), and counts the use (BlockCache::use). May wait.
  Result<std::shared_ptr<const CachedBlock>> use_page(const PageInfo& page, ReadCounters* counters) const;
  /// Checks and decodes a block that was read, and puts the page into the block cache.
  Result<std::shared_ptr<const CachedBlock>> take_block(const PageInfo& page, Bytes block, ReadCounters* counters) const;
  /// Copies a decoded page into the block cache. If there is no cache, or the page is too large for it, the result owns the copy.
  std::shared_ptr<const CachedBlock> keep_page(const PageInfo& page, Bytes decoded) const;

  /// Does the stages of TableLookup::prefetch() that search the block cache.
  void prefetch_page(const TableIndex& now, const LookupKey& key, int stage, LookupState* state) const;

 private:
  const TableIndex* index_or_miss(MissSet* misses, Status* status) const;
  Result<std::shared_ptr<TableReader>> read_and_pin() const REQUIRES(loading);
  void publish(std::shared_ptr<const TableIndex> fresh, std::shared_ptr<const LoadedFilter> whole) const EXCLUDES(mutex);
  [[nodiscard]] std::shared_ptr<TableReader> handle() const;
  void unpin() const EXCLUDES(mutex);
};

/// Returns an iterator over the table. `pinned` keeps the index of `impl` in memory.
std::unique_ptr<InternalIterator> new_table_iterator(std::shared_ptr<const TableReader> pinned, const TableReaderImpl& impl,
                                                     const TableIteratorOptions& options);
bool verify_table(const TableReaderImpl& impl, std::vector<Status>* errors, std::uint64_t* pages, std::uint64_t* entries,
                  const std::function<bool()>& stopped);

}  // namespace ebbtide
