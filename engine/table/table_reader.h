// Reads one table. Resident: page table, fences, filters, range tombstones. Pages come through the block cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/options.h>
#include <engine/read_view.h>
#include "base/entry.h"
#include "base/table_stats.h"
#include "cache/block_cache.h"
#include "deletes/range_tombstone.h"
#include "io/file_system.h"
#include "iter/internal_iterator.h"

namespace ebbtide {

struct TableMetadata;  // table/metadata.h
struct FileExtent;
class LoadedFilter;  // table/loaded_filter.h

/// Counters of one thread or job; plain, the owner adds them up.
struct ReadCounters {
  std::uint64_t pages_read = 0, bytes_read = 0, filter_negatives = 0, filter_positives = 0, filter_false_positives = 0;
  std::uint32_t runs_probed = 0;    ///< of a get, set by the caller that asks table after table
  std::uint64_t pages_in_vain = 0;  ///< false positives: pages searched for a key that they do not have, with or without a filter
};

/// Receives read errors of a table: damage, and errors of the device. Thread-safe; must not block.
class DamageSink {
 public:
  virtual ~DamageSink() = default;
  virtual void report(FileNum data_file, const Status& status) = 0;
};

struct TableReaderOptions {
  FileSystem* fs = nullptr;
  BlockCache* cache = nullptr;
  std::string dir;
  bool direct_io = false;
  std::uint32_t filter_slices = 255;  ///< load at most this many of the filter's slices; 0 = none; see keep_slices()
  DamageSink* damage = nullptr;       ///< may be null; outlives the readers
};

/// One slice of a table's filter, in memory or not.
struct SliceInfo {
  std::uint64_t bits = 0;        ///< of memory
  std::uint64_t block_bits = 0;  ///< memory is allocated in units of this
  double rate = 1;               ///< false positive rate of this slice alone, for one page
};

/// Sizes and checksums of the two files by the manifest; open() checks them.
struct TableFiles {
  FileNum data_file = kNoFile, metadata_file = kNoFile;
  std::uint64_t data_bytes = 0, metadata_bytes = 0;
  std::uint64_t data_checksum = 0, metadata_checksum = 0;
};

struct TableIteratorOptions {
  KeyRange bounds;         ///< tiles and pages outside are not read
  bool fill_cache = true;  ///< false: pages are read beside the cache (compactions), with readahead
  ReadCounters* counters = nullptr;
};

/// The resident fences of a page. A tile is a contiguous range of keys, a page of it a range of delete keys.
struct PageFence {
  std::uint32_t tile = 0;
  std::uint32_t flags = 0;       ///< kPage... of table/metadata.h
  bool unique_keys = false;      ///< of the tile: all versions of its keys that the table has are in it ...
  bool single_versions = false;  ///< ... and there is one of each
  std::uint32_t entries = 0;
  std::uint32_t stored_bytes = 0;
  // Ranges may be wider than the truth, never narrower; min > max: none has one.
  DeleteKey min_delete_key = 1, max_delete_key = 0;
  Millis min_expiry = 1, max_expiry = 0;
  SeqNum min_seq = 1, max_seq = 0;
};

enum class Lookup : std::uint8_t { kAbsent, kFound, kNotResident, kError };

/// Immutable after open(), except for the loaded part of the filter; thread-safe.
class TableReader : public std::enable_shared_from_this<TableReader> {
 public:
  /// Reads the metadata file whole and checks it; kCorruption names file and offset.
  static Result<std::shared_ptr<TableReader>> open(const TableReaderOptions& options, const TableFiles& files);
  /// Makes a placeholder for a table that cannot be opened: each lookup and iterator returns `why`, its filter denies no key, it
  /// has no pages. Does no I/O.
  static std::shared_ptr<TableReader> unreadable(const TableReaderOptions& options, const TableFiles& files,
                                                 const TableStats& stats, Status why);
  /// Ok, or the reason why the table cannot be read.
  [[nodiscard]] const Status& unreadable() const;
  /// Opens the same data file with a new metadata file, just written; `metadata` is its content, checked as if it had been read
  /// back. Reads only the data file's header.
  [[nodiscard]] Result<std::shared_ptr<TableReader>> redescribed(const TableFiles& files, Bytes metadata) const;
  ~TableReader();

  /// Finds the newest version of `key` with seq <= view_seq. Needs an EpochGuard of the cache's epoch. The entry's views are
  /// valid as long as the guard (or as *pin, which is set when the page had to be read); entry->key is the caller's key. With
  /// `misses` it never reads: it adds the missing pages and returns kNotResident. kError: see *status. It never reads a large
  /// value: it sets entry->large, and the caller calls large_if_resident(), then read_large(), or adds a miss for it.
  /// `known`: null, or the result of prefetch() under the same guard.
  Lookup get(const LookupKey& key, SeqNum view_seq, MissSet* misses, Entry* entry, std::shared_ptr<const void>* pin,
             ReadCounters* counters, Status* status, const LookupState* known = nullptr) const;
  /// The loaded part of the filter now. It stays valid and correct when another part is loaded. Never null. Takes a short lock.
  [[nodiscard]] std::shared_ptr<const LoadedFilter> filter() const;
  /// Asks only the filter from filter(): false means that the table has no point entry of the key. Range tombstones are not
  /// checked.
  [[nodiscard]] bool may_contain(const LookupKey& key, const LoadedFilter& filter) const;
  /// All slices that the filter was built with; the first filter()->slices() of them are in memory.
  [[nodiscard]] const std::vector<SliceInfo>& slices() const;
  /// Keeps the first `count` slices in memory, or all if there are fewer; reads missing ones from the metadata file. If that
  /// fails (kIoError, kCorruption), nothing changes. Returns the old filter, which readers may still use: hold it until all
  /// EpochGuards of now have ended; null if nothing changed. One thread at a time.
  Result<std::shared_ptr<const void>> keep_slices(std::uint32_t count);
  /// Stages of prefetch().
  static constexpr int kPrefetchStages = 6;
  /// A lookup in stages; each starts the memory loads of the next one, or of get(): 0 filter rows, 1 fences, 2 the tile's row of
  /// the page table, 3 the cache's bucket of the page, 4 the page's head, 5 its entry. Stages from 1 on need an EpochGuard and
  /// `state`, which stores results. Stage 1 returns false if the filter denies the key: get() is then not needed.
  bool prefetch(const LookupKey& key, int stage, LookupState* state) const;
  /// Reads the page of a miss into the cache and pins it. Any thread; `counters`, if not null, belong to the calling thread.
  Result<std::shared_ptr<const void>> fetch_page(std::uint32_t page, ReadCounters* counters) const;
  /// As fetch_page, but without waiting for the device (preadv2 RWF_NOWAIT): returns null if it would wait.
  std::shared_ptr<const void> fetch_page_if_cached(std::uint32_t page, ReadCounters* counters) const;
  /// The place of a page, for callers that read it themselves and then call take_page().
  struct PagePlace {
    const RandomAccessFile* file = nullptr;  ///< null: there is no such page
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
  };
  [[nodiscard]] PagePlace page_place(std::uint32_t page) const;
  /// As fetch_page, for a page whose block was read already.
  Result<std::shared_ptr<const void>> take_page(std::uint32_t page, Bytes block, ReadCounters* counters) const;
  /// Returns a large value of this table: shared with its present holders, else read.
  Result<std::shared_ptr<const std::string>> read_large(const LargeValueRef& ref) const;
  /// Returns the value if another holder has it in memory, else null. Takes a short lock.
  [[nodiscard]] std::shared_ptr<const std::string> large_if_resident(const LargeValueRef& ref) const;
  /// Copies to.size() bytes of a large value from `offset` on, inside the value. Reads its index and the chunks that have them,
  /// and checks each.
  Status copy_large(const LargeValueRef& ref, std::uint64_t offset, std::span<char> to) const;
  /// Each chunk of a large value as it is stored, its checksum verified, for copying it to another table.
  Status visit_large(const LargeValueRef& ref, const std::function<Status(Bytes payload, Compression compression)>& chunk) const;

  [[nodiscard]] std::unique_ptr<InternalIterator> new_iterator(const TableIteratorOptions& options) const;
  [[nodiscard]] const SharedTombstones& range_tombstones() const;  ///< never null
  [[nodiscard]] const TableStats& stats() const;
  [[nodiscard]] const TableFiles& files() const;
  [[nodiscard]] std::uint32_t pages_per_tile() const;
  [[nodiscard]] std::uint32_t page_count() const;
  [[nodiscard]] std::uint32_t tile_count() const;
  /// Of page `page` < page_count(), numbered tile by tile. No I/O. O(log tiles).
  [[nodiscard]] PageFence page_fence(std::uint32_t page) const;
  /// The first tile that can have a version of `key`. Needs tile_count() > 0.
  [[nodiscard]] std::uint32_t first_tile(Bytes key) const;
  /// No key of the tile is less than this, and none of those before it greater; "" for the first tile.
  [[nodiscard]] std::string tile_start(std::uint32_t tile) const;
  /// Appends the key of each entry of the tile with key >= from and lo <= D < hi, once per version, in no order. Reads only pages
  /// whose fences overlap the range, through the cache; counts misses in `counters->pages_read`. Returns false if no page had to
  /// be read.
  Result<bool> collect_stamps(std::uint32_t tile, DeleteKey lo, DeleteKey hi, Bytes from, std::vector<std::string>* keys,
                              ReadCounters* counters) const;
  /// The key range of a tile: from its fence, or the table's lower bound, to the next fence or the table's end.
  [[nodiscard]] KeyRange tile_range(std::uint32_t tile) const;
  /// As TableMetadata says. No I/O.
  [[nodiscard]] bool names_can_be_renewed() const;
  /// Reads and decodes a page without the cache; `counters` may be null. The page must not be dropped.
  [[nodiscard]] Result<std::string> read_page(std::uint32_t page, ReadCounters* counters) const;
  /// Bytes of the pages that lie in the metadata file instead of the data file.
  [[nodiscard]] std::uint64_t replaced_bytes() const;
  /// Calls `visit` for each entry that expires later than `after` and no later than `until`; the entry lasts as long as the call.
  /// Reads the pages that have some, through the cache.
  Status visit_expiring(Millis after, Millis until, const std::function<void(const Entry& entry)>& visit) const;
  /// TableMetadata::dead_extents. No I/O.
  [[nodiscard]] const std::vector<FileExtent>& dead_extents() const;
  /// The metadata file, read again (page checksums are not kept in memory): for page drops, tools and tests.
  [[nodiscard]] Result<TableMetadata> load_metadata() const;
  [[nodiscard]] std::uint64_t filter_bits() const;  ///< in memory
  /// Probability that the loaded part of the filter lets a lookup of an absent key read some page.
  [[nodiscard]] double false_positive_rate() const;
  /// Bytes of memory that the open table holds.
  [[nodiscard]] std::uint64_t memory_bytes() const;
  /// Estimated bytes of the data file within a key range, from the fences. No I/O.
  [[nodiscard]] std::uint64_t approximate_bytes(const KeyRange& range) const;
  /// Some keys of the fences, in order, about `count`, evenly spaced within `range`: for cutting a merge into sub-merges. No I/O.
  [[nodiscard]] std::vector<std::string> split_points(const KeyRange& range, std::size_t count) const;
  /// Divides the tiles that overlap the range into at most `count` pieces, in order: returns a key from the middle of each, and
  /// its bytes in the data file. No I/O.
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> byte_samples(const KeyRange& range, std::size_t count) const;

  /// Reads everything and checks checksums, order, bounds, filters, permutations, stats. Adds faults to `errors`; true if there
  /// are none. `stopped` may be null; it is called before each tile, and ends the check if it returns true.
  bool verify(std::vector<Status>* errors, std::uint64_t* pages, std::uint64_t* entries,
              const std::function<bool()>& stopped = {}) const;
  /// The same, with the errors as text.
  bool verify(std::vector<std::string>* errors, std::uint64_t* pages, std::uint64_t* entries,
              const std::function<bool()>& stopped = {}) const;

 private:
  friend struct TableReaderImpl;
  TableReader();
  std::unique_ptr<struct TableReaderImpl> impl_;
};

}  // namespace ebbtide
