// The inside of a TableReader, shared by its facets, iterator and verify. Not for includes from other layers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/planted_bug.h"
#include "table/fences.h"
#include "table/large_value.h"
#include "table/loaded_filter.h"
#include "table/metadata.h"
#include "table/page.h"
#include "table/page_fences.h"
#include "table/table_reader.h"

namespace ebbtide {

/// The resident data of a page: 16 bytes.
struct PageInfo {
  std::uint64_t offset : 48;  ///< in the data file, or the metadata file if it is replaced
  std::uint64_t flags : 16;
  std::uint32_t length;
  std::uint32_t entries;

  [[nodiscard]] bool dropped() const { return (flags & kPageDropped) != 0; }
  [[nodiscard]] bool replaced() const { return (flags & kPageReplaced) != 0; }
};
static_assert(sizeof(PageInfo) == 16);

struct TileInfo {
  std::uint32_t first_page;
  std::uint8_t pages;
  std::uint8_t flags;
};
static_assert(sizeof(TileInfo) == 8);

/// A candidate page of a lookup.
[[nodiscard]] inline bool is_candidate(const PageInfo& page, std::uint32_t number, std::uint64_t mask, bool tombstones) {
  if (page.dropped()) return false;
  if ((page.flags & kPageTombstones) != 0) return tombstones;
  return (mask >> number & 1) != 0;
}

struct TableReaderImpl {
  // --- constant after open
  const TableLookup* lookup = nullptr;  ///< the reader; stored in references to large values
  TableReaderOptions options;
  TableFiles files;
  std::string data_path, metadata_path;
  std::unique_ptr<RandomAccessFile> data, metadata;  ///< metadata is open only if it has pages
  TableStats stats;
  std::uint32_t unit = kSmallUnit, h = 1;
  Fences fences;
  std::vector<PageInfo> pages;
  std::vector<TileInfo> tiles;
  RoundedRanges delete_keys, expiries, seqs;  ///< by page
  std::string permutations;
  std::vector<std::uint64_t> permutation_offsets;  ///< by tile; empty if h = 1
  std::vector<FileExtent> dead;                    ///< TableMetadata::dead_extents
  std::uint64_t tombstone_bytes = 0, replaced_bytes = 0;
  std::vector<SliceInfo> slices;  ///< of the whole filter
  bool any_continues = false;     ///< a tile begins with the last key of the one before
  bool renewable = false;         ///< TableMetadata::names_can_be_renewed
  SharedTombstones tombstones;
  Status unreadable;  ///< the reason if the table could not be opened; then only names and stats are set

  // --- the filter: read without a lock, under the epoch
  std::atomic<const LoadedFilter*> filter{nullptr};

  mutable Mutex mutex;
  std::shared_ptr<const LoadedFilter> filter_owner GUARDED_BY(mutex);
  // large values that are in memory
  mutable std::vector<std::pair<std::uint64_t, std::weak_ptr<const std::string>>> large GUARDED_BY(mutex);  ///< by offset

  /// `bytes` are those of the metadata file.
  Status open(Bytes bytes);
  Status load(TableMetadata m);
  /// Opens a file that is read for as long as the reader lives.
  Result<std::unique_ptr<RandomAccessFile>> open_file(const std::string& path, const OpenOptions& how) const;
  void take_fences(const TableMetadata& m);

  /// See TableInspector::load_metadata().
  [[nodiscard]] Result<TableMetadata> load_metadata() const;
  /// See TableLookup::filter().
  [[nodiscard]] std::shared_ptr<const LoadedFilter> loaded_filter() const {
    MutexLock lock(mutex);
    return filter_owner;
  }

  /// Reports a read's error to the damage sink, and returns it.
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
  /// Checks a page's block and decodes it: a view of `block` or of `scratch`. The result may be trusted.
  Result<Bytes> decode_page(const PageInfo& page, Bytes block, std::string* scratch) const;
  /// Returns a page from the cache, or reads it into the cache. With `may_wait` false: null if that would wait for the device.
  Result<std::shared_ptr<const CachedBlock>> load_page(const PageInfo& page, bool may_wait, ReadCounters* counters) const;
  /// Checks and decodes a block that was read, and keeps the page in the cache.
  Result<std::shared_ptr<const CachedBlock>> take_block(const PageInfo& page, Bytes block, ReadCounters* counters) const;
  /// Copies a decoded page into the cache; without a cache, or if it is too large for it, into a block of its own.
  std::shared_ptr<const CachedBlock> keep_page(const PageInfo& page, Bytes decoded) const;

  /// The approximate start of a tile in the data file; for the tile past the last, the end of the last.
  [[nodiscard]] std::uint64_t begin_of(std::uint32_t tile) const;
  /// The first tile that can have a version of `key`.
  [[nodiscard]] std::uint32_t first_tile(Bytes key) const;
  /// The same, given the last tile that begins at or before `key`.
  [[nodiscard]] std::uint32_t first_of(std::uint32_t tile, Bytes key) const;
  /// The first page of the state's tile that may have its key, or LookupState::kNoPage.
  [[nodiscard]] std::uint32_t first_candidate(const LookupState& state) const;
  /// The later stages of TableLookup::prefetch: load the tile's row in the page table, then start, guess and confirm in the
  /// cache.
  void prefetch_tile(std::uint32_t tile) const;
  void prefetch_page(const LookupKey& key, int stage, LookupState* state) const;
  [[nodiscard]] bool goes_on(std::uint32_t tile, Bytes key) const {
    return tile + 1 < tiles.size() && (tiles[tile + 1].flags & kTileContinues) != 0 && fences.separator(tile + 1) == key;
  }
};

std::unique_ptr<InternalIterator> new_table_iterator(std::shared_ptr<const TableLookup> reader, const TableReaderImpl& impl,
                                                     const TableIteratorOptions& options);
bool verify_table(const TableReaderImpl& impl, std::vector<Status>* errors, std::uint64_t* pages, std::uint64_t* entries,
                  const std::function<bool()>& stopped);

}  // namespace ebbtide
