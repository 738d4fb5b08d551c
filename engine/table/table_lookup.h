// Lookups in an open table: its filter, its pages through the block cache, large values, iterators.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <engine/options.h>
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

/// Counters of one thread or job, not atomic; the owner adds them to totals.
struct ReadCounters {
  std::uint64_t pages_read = 0, bytes_read = 0, filter_negatives = 0, filter_positives = 0, filter_false_positives = 0;
  std::uint32_t runs_probed = 0;    ///< of a get; the caller, which searches several tables, sets it
  std::uint64_t pages_in_vain = 0;  ///< false positives: pages searched for a key that they do not have, with or without a filter
};

struct TableIteratorOptions {
  KeyRange bounds;         ///< tiles and pages outside are not read
  bool fill_cache = true;  ///< false: pages are read beside the cache (compactions), with readahead
  ReadCounters* counters = nullptr;
};

enum class Lookup : std::uint8_t { kAbsent, kFound, kNotResident, kError };

/// A facet of TableReader, with its lifetime. Thread-safe.
class TableLookup : public std::enable_shared_from_this<TableLookup> {
 public:
  /// Finds the newest version of `key` with seq <= view_seq. Needs an EpochGuard of the cache's epoch. The entry's views are
  /// valid as long as the guard (or as *pin, which is set when the page had to be read); entry->key is the caller's key. With
  /// `misses` it never reads: it adds the missing pages and returns kNotResident. kError: see *status. It never reads a large
  /// value: it sets entry->large, and the caller calls large_if_resident(), then read_large(), or adds a miss for it.
  /// `known`: null, or the result of prefetch() under the same guard.
  Lookup get(const LookupKey& key, SeqNum view_seq, MissSet* misses, Entry* entry, std::shared_ptr<const void>* pin,
             ReadCounters* counters, Status* status, const LookupState* known = nullptr) const;
  /// The loaded part of the filter now. It stays valid and correct when another part is loaded. Never null. Takes a short lock.
  [[nodiscard]] std::shared_ptr<const LoadedFilter> filter() const;
  /// Checks only `filter`, which filter() returned: false means that the table has no point entry of the key. Does not check
  /// range tombstones.
  [[nodiscard]] bool may_contain(const LookupKey& key, const LoadedFilter& filter) const;
  /// Stages of prefetch().
  static constexpr int kPrefetchStages = 6;
  /// A lookup in stages; each starts the memory loads of the next one, or of get(): 0 filter rows, 1 fences, 2 the tile's row of
  /// the page table, 3 the cache's bucket of the page, 4 the page's head, 5 its entry. Stages from 1 on need an EpochGuard and
  /// `state`, which stores results. Stage 1 returns false if the filter denies the key: get() is then not needed.
  bool prefetch(const LookupKey& key, int stage, LookupState* state) const;
  /// Reads the page of a miss into the cache and pins it. Any thread; `counters`, if not null, belong to the calling thread.
  Result<std::shared_ptr<const void>> fetch_page(std::uint32_t page, ReadCounters* counters) const;
  /// Like fetch_page(), but returns null instead of waiting for the device (preadv2 RWF_NOWAIT).
  std::shared_ptr<const void> fetch_page_if_cached(std::uint32_t page, ReadCounters* counters) const;
  /// Pins the page if the block cache has it; otherwise returns null.
  [[nodiscard]] std::shared_ptr<const void> pin_page(std::uint32_t page) const;
  /// The place of a page, for callers that read it themselves and then call take_page().
  struct PagePlace {
    const RandomAccessFile* file = nullptr;  ///< null: there is no such page
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
  };
  [[nodiscard]] PagePlace page_place(std::uint32_t page) const;
  /// Like fetch_page(), for a page whose block the caller has read.
  Result<std::shared_ptr<const void>> take_page(std::uint32_t page, Bytes block, ReadCounters* counters) const;
  /// Returns a large value of this table: shared with its current holders, or read.
  Result<std::shared_ptr<const std::string>> read_large(const LargeValueRef& ref) const;
  /// Returns the value if another holder has it in memory, else null. Takes a short lock.
  [[nodiscard]] std::shared_ptr<const std::string> large_if_resident(const LargeValueRef& ref) const;
  /// Copies to.size() bytes of a large value from `offset` on, inside the value. Reads its index and the chunks that have them,
  /// and checks each.
  Status copy_large(const LargeValueRef& ref, std::uint64_t offset, std::span<char> to) const;
  /// Passes each chunk of a large value as it is stored, with its checksum verified: for copying it to another table.
  Status visit_large(const LargeValueRef& ref, const std::function<Status(Bytes payload, Compression compression)>& chunk) const;

  /// Pages outside the bounds are not read. The iterator keeps the table open.
  [[nodiscard]] std::unique_ptr<InternalIterator> new_iterator(const TableIteratorOptions& options) const;
  [[nodiscard]] const SharedTombstones& range_tombstones() const;  ///< never null
  [[nodiscard]] const TableStats& stats() const;
  [[nodiscard]] const TableFiles& files() const;
  /// Ok, or the reason why the table cannot be read.
  [[nodiscard]] const Status& unreadable() const;

 protected:
  explicit TableLookup(const TableReaderImpl& r) : r_(r) {}
  ~TableLookup() = default;

 private:
  const TableReaderImpl& r_;
};

}  // namespace ebbtide
