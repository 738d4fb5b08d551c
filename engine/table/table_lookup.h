// Reads of an open table: point lookups by filter, index and block cache, large values, and iterators.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <engine/options.h>
#include <engine/points.h>
#include <engine/read_view.h>
#include "base/entry.h"
#include "base/table_stats.h"
#include "deletes/range_tombstone.h"
#include "io/file_system.h"
#include "iter/internal_iterator.h"
#include "table/table_files.h"

namespace ebbtide {

struct TableReaderImpl;  // table/table_reader_impl.h
class LoadedFilter;      // table/loaded_filter.h

/// Counters of one thread or job. They are not atomic; their owner adds them to atomic totals.
struct ReadCounters {
  std::uint64_t pages_read = 0, bytes_read = 0, filter_negatives = 0, filter_positives = 0, filter_false_positives = 0;
  std::uint32_t runs_probed = 0;    ///< runs that a get searched; set by the caller of TableLookup::get()
  std::uint64_t pages_in_vain = 0;  ///< pages that were searched, with or without a filter, and did not have the key
};

/// The most bytes that an iterator reads at once, and the bytes of readahead for all tables that one merge or scan reads.
inline constexpr std::size_t kMostReadahead = std::size_t{256} << 10;
inline constexpr std::size_t kReadaheadBudget = std::size_t{32} << 20;
/// Returns the readahead of each table if `tables` tables share `budget`. So a merge of a thousand runs takes no more memory than
/// one of a hundred. Returns at least 4 KiB, a page of the usual size: with less, each page would still be read as a whole.
constexpr std::size_t readahead_of_each(std::size_t tables, std::size_t budget = kReadaheadBudget) {
  return std::clamp(budget / std::max<std::size_t>(tables, 1), std::size_t{4} << 10, kMostReadahead);
}

struct TableIteratorOptions {
  KeyRange bounds;         ///< the iterator reads no tile or page outside this range
  bool fill_cache = true;  ///< false: pages are read without the cache, with readahead (for compactions)
  ReadCounters* counters = nullptr;
  std::size_t readahead = kMostReadahead;  ///< the most bytes to read at once; a larger block is read as a whole
  /// If not null, the iterator never reads: it adds missing pages to `misses`, and ends with kNotResident.
  MissSet* misses = nullptr;
  std::uint32_t pages_at_once = 1;      ///< with `misses`: the most pages to add at once (IteratorOptions::pages_at_once)
  const PointFilter* points = nullptr;  ///< see IteratorOptions::points; must outlive the iterator
};

/// The value of PageMiss::page if the missing part of the table is not a page, but index and filter.
inline constexpr std::uint32_t kIndexMiss = ~std::uint32_t{0};

enum class Lookup : std::uint8_t { kAbsent, kFound, kNotResident, kError };

/// The part of TableReader for point lookups and iterators. Lives as long as the reader. Thread-safe.
class TableLookup : public std::enable_shared_from_this<TableLookup> {
 public:
  /// Finds the newest version of `key` with seq <= view_seq. Requires an EpochGuard of the block cache's epoch. The entry's views
  /// are valid as long as the guard. If the call had to read the page, it sets `*pin`, and they are valid as long as the pin.
  /// entry->key is the caller's key. If `misses` is not null, the call never reads: it adds the missing pages, or the index, to
  /// `misses` and returns kNotResident. If kError is returned, *status has the error. A large value is never read: entry->large
  /// is set, and the caller calls large_if_resident(), then read_large(), or adds a miss for the value. `known` is null, or the
  /// result of prefetch() under the same guard.
  Lookup get(const LookupKey& key, SeqNum view_seq, MissSet* misses, Entry* entry, std::shared_ptr<const void>* pin,
             ReadCounters* counters, Status* status, const LookupState* known = nullptr) const;
  /// Returns the part of the filter that is now loaded; never null. The result stays valid and correct when the table loads or
  /// drops slices. Takes a lock for a short time.
  [[nodiscard]] std::shared_ptr<const LoadedFilter> filter() const;
  /// Searches `filter`, a result of filter(), for the key. Returns false only if the table has no point entry of the key. Does
  /// not check range tombstones. Returns true if the index is not in memory. Requires a pin or an EpochGuard.
  [[nodiscard]] bool may_contain(const LookupKey& key, const LoadedFilter& filter) const;
  /// Returns false only if the table has no collection under the key; true may be a false positive. Returns true while the index
  /// is not in memory. Requires an EpochGuard or a pin.
  [[nodiscard]] bool may_have_collection(const LookupKey& key) const;
  /// Starts the memory loads that may_have_collection() needs.
  void prefetch_collection(const LookupKey& key) const;
  /// Number of stages of prefetch().
  static constexpr int kPrefetchStages = 6;
  /// Does one stage of a lookup. Each stage starts the memory loads of the next stage, or of get(). The stages load: 0 the
  /// filter's rows, 1 the fences, 2 the tile's row of the page table, 3 the page's bucket of the block cache, 4 the page's
  /// header, 5 the entry. Stages from 1 on require an EpochGuard and `state`, in which they store results. Returns false only
  /// in stage 1, if the filter or the table's key prefix shows that the table has no version of the key: get() is then not
  /// needed.
  bool prefetch(const LookupKey& key, int stage, LookupState* state) const;
  /// Reads the page of a miss into the block cache and pins it; for kIndexMiss, reads and pins the index. Any thread may call
  /// this; `counters`, if not null, belong to the calling thread.
  Result<std::shared_ptr<const void>> fetch_page(std::uint32_t page, ReadCounters* counters) const;
  /// Like fetch_page(), but returns null if the read would wait for the device (preadv2 RWF_NOWAIT).
  std::shared_ptr<const void> fetch_page_if_cached(std::uint32_t page, ReadCounters* counters) const;
  /// Pins the page if the block cache has it; otherwise returns null.
  [[nodiscard]] std::shared_ptr<const void> pin_page(std::uint32_t page) const;
  /// States where the block of a page is, for callers that read the block themselves and then call take_page().
  struct PagePlace {
    const RandomAccessFile* file = nullptr;  ///< null if there is no such page
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
  };
  [[nodiscard]] PagePlace page_place(std::uint32_t page) const;
  /// Like fetch_page(), for a page whose block the caller has read.
  Result<std::shared_ptr<const void>> take_page(std::uint32_t page, Bytes block, ReadCounters* counters) const;
  /// Returns a large value of this table. Reads it, unless another caller still holds the result of an earlier read.
  Result<std::shared_ptr<const std::string>> read_large(const LargeValueRef& ref) const;
  /// Returns the large value if another caller still holds it, otherwise null. Takes a lock for a short time.
  [[nodiscard]] std::shared_ptr<const std::string> large_if_resident(const LargeValueRef& ref) const;
  /// Copies to.size() bytes of a large value, from `offset` on, to `to`. The bytes must be inside the value. Reads and checks the
  /// value's index and only the chunks with these bytes.
  Status copy_large(const LargeValueRef& ref, std::uint64_t offset, std::span<char> to) const;
  /// Calls `chunk` with the stored payload of each chunk of a large value, in order. Verifies each chunk's checksum first. For
  /// copying the value to another table.
  Status visit_large(const LargeValueRef& ref, const std::function<Status(Bytes payload, Compression compression)>& chunk) const;

  /// Returns an iterator, which reads no page outside the bounds and keeps the table open.
  [[nodiscard]] std::unique_ptr<InternalIterator> new_iterator(const TableIteratorOptions& options) const;
  [[nodiscard]] const SharedTombstones& range_tombstones() const;  ///< never null; requires a pin
  /// Finds the newest range tombstone with seq <= view_seq that covers `key`. kFound: *cover is set, and valid as long as the
  /// caller's EpochGuard. Other results are as for get().
  Lookup newest_cover(Bytes key, SeqNum view_seq, MissSet* misses, const FragmentedRangeTombstones::Cover** cover,
                      Status* status) const;
  /// Returns true if too many indexes are pinned (IndexCache::crowded()): then a search must not pin the index if the search can
  /// be repeated.
  [[nodiscard]] bool is_crowded() const;
  /// Adds a miss for the index to `misses`, unless the index is in memory or cannot be read.
  void add_index_miss(MissSet* misses) const;
  /// Pins the index in memory as long as the result lives. Returns null if the index is not in memory.
  [[nodiscard]] std::shared_ptr<const void> pin_index_if_loaded() const;
  [[nodiscard]] const TableStats& stats() const;
  [[nodiscard]] const TableFiles& files() const;
  /// Returns ok, or the reason why the table cannot be read.
  [[nodiscard]] const Status& unreadable() const;

 protected:
  explicit TableLookup(const TableReaderImpl& r) : r_(r) {}
  ~TableLookup() = default;

 private:
  const TableReaderImpl& r_;
};

}  // namespace ebbtide
