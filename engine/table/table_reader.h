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
  std::uint32_t runs_probed = 0;    ///< of a get, by whoever asks table after table
  std::uint64_t pages_in_vain = 0;  ///< looked at for a key that they do not have, with a filter or without
};

/// Receives the errors of reads that a table's readers meet: damage, and errors of the device. Thread-safe; must not block.
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
  std::uint32_t filter_slices = 255;  ///< load so many of the filter's slices, at most; 0 = do without; see keep_slices()
  DamageSink* damage = nullptr;       ///< may be null; outlives the readers
};

/// One slice of a table's filter, in memory or not.
struct SliceInfo {
  std::uint64_t bits = 0;        ///< of memory
  std::uint64_t block_bits = 0;  ///< those come in units of so many
  double rate = 1;               ///< chance that by this slice alone a page is a candidate for a key that it does not have
};

/// What the manifest knows of the two files; open() checks it.
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

/// What is known of a page in memory: its delete fences. A tile is a contiguous range of keys, a page of it one of delete keys.
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

/// Immutable after open, but for how much of the filter is in memory; thread-safe.
class TableReader : public std::enable_shared_from_this<TableReader> {
 public:
  /// Reads the metadata file whole and checks it; kCorruption names file and offset.
  static Result<std::shared_ptr<TableReader>> open(const TableReaderOptions& options, const TableFiles& files);
  /// Stands for a table that cannot be opened: each lookup and walk answers with `why`, its filter denies nothing, it has no
  /// pages. Does no I/O.
  static std::shared_ptr<TableReader> unreadable(const TableReaderOptions& options, const TableFiles& files,
                                                 const TableStats& stats, Status why);
  /// Ok, or why the table cannot be read at all.
  [[nodiscard]] const Status& unreadable() const;
  /// The same data file under another metadata file, which was just written: `metadata` is what it holds, checked as if it had
  /// been read back. Reads no more than the data file's header.
  [[nodiscard]] Result<std::shared_ptr<TableReader>> redescribed(const TableFiles& files, Bytes metadata) const;
  ~TableReader();

  /// The newest version of `key` with seq <= view_seq. Needs an EpochGuard of the cache's epoch; the entry's views last as long
  /// as it (or as long as *pin, which is set when the page had to be read); entry->key is the caller's key. With `misses` set
  /// never reads: kNotResident after adding what it lacks. kError: *status says why. A large value is never read here:
  /// entry->large is set, and the caller asks large_if_resident(), then read_large(), or adds a miss that says where it lies.
  /// `known`: null, or what prefetch() left under the same guard.
  Lookup get(const LookupKey& key, SeqNum view_seq, MissSet* misses, Entry* entry, std::shared_ptr<const void>* pin,
             ReadCounters* counters, Status* status, const LookupState* known = nullptr) const;
  /// What is in memory of the filter now; it stays valid, and a correct filter, when that changes. Never null. Takes a short lock.
  [[nodiscard]] std::shared_ptr<const LoadedFilter> filter() const;
  /// Filters only, those that filter() gave: false means certainly absent (no point entry; range tombstones are not asked).
  [[nodiscard]] bool may_contain(const LookupKey& key, const LoadedFilter& filter) const;
  /// All slices that the filter was built with; the first filter()->slices() of them are in memory.
  [[nodiscard]] const std::vector<SliceInfo>& slices() const;
  /// Has the first `count` slices in memory from now on, all if there are fewer. What is missing is read from the metadata file;
  /// if that fails, kIoError or kCorruption, nothing changes. Answers with what readers may be looking at still, to be held until
  /// every EpochGuard of now is left; null if nothing changed. Not by two threads at a time.
  Result<std::shared_ptr<const void>> keep_slices(std::uint32_t count);
  /// Stages of prefetch().
  static constexpr int kPrefetchStages = 6;
  /// A lookup of a span of keys in stages, each of which starts the loads that the next one, or get(), needs: 0 filter rows,
  /// 1 fences, 2 the tile's row of the page table, 3 the cache's bucket of the page, 4 the page's head, 5 its entry. From stage 1
  /// on needs an EpochGuard and `state`, in which it keeps what it found. False from stage 1: the filter denies the key, get()
  /// need not be asked.
  bool prefetch(const LookupKey& key, int stage, LookupState* state) const;
  /// Reads a page into the cache and pins it: what a MissSet's `page` asks for. Any thread; `counters`, if not null, are its own.
  Result<std::shared_ptr<const void>> fetch_page(std::uint32_t page, ReadCounters* counters) const;
  /// True if the page could be had without waiting for the device (preadv2 RWF_NOWAIT); then it is in the cache and pinned.
  std::shared_ptr<const void> fetch_page_if_cached(std::uint32_t page, ReadCounters* counters) const;
  /// Where a page lies, for who reads it on his own and then calls take_page().
  struct PagePlace {
    const RandomAccessFile* file = nullptr;  ///< null: there is no such page
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
  };
  [[nodiscard]] PagePlace page_place(std::uint32_t page) const;
  /// As fetch_page, of a page whose block was read already.
  Result<std::shared_ptr<const void>> take_page(std::uint32_t page, Bytes block, ReadCounters* counters) const;
  /// The bytes of a large value of this table. Shared with whoever else holds them now, else read.
  Result<std::shared_ptr<const std::string>> read_large(const LargeValueRef& ref) const;
  /// The value if somebody holds it, else null. Takes a short lock.
  [[nodiscard]] std::shared_ptr<const std::string> large_if_resident(const LargeValueRef& ref) const;
  /// Copies to.size() bytes of a large value from `offset` on, which lie within it. Reads its index and the chunks that have
  /// them, each of which is checked.
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
  /// Appends the key of each entry of the tile with key >= from and lo <= D < hi, once a version, in no order. Reads only pages
  /// whose fences meet the range, through the cache; `counters->pages_read` says how many were not there. False: none had to be
  /// looked at.
  Result<bool> collect_stamps(std::uint32_t tile, DeleteKey lo, DeleteKey hi, Bytes from, std::vector<std::string>* keys,
                              ReadCounters* counters) const;
  /// What lies in a tile has its keys in here: from its fence, or the table's lower bound, to the next fence or the table's end.
  [[nodiscard]] KeyRange tile_range(std::uint32_t tile) const;
  /// As TableMetadata says. No I/O.
  [[nodiscard]] bool names_can_be_renewed() const;
  /// A page as it is decoded, read beside the cache; `counters` may be null. The page must not be dropped.
  [[nodiscard]] Result<std::string> read_page(std::uint32_t page, ReadCounters* counters) const;
  /// Bytes of the pages that lie in the metadata file instead of the data file.
  [[nodiscard]] std::uint64_t replaced_bytes() const;
  /// Calls `visit` for each entry that expires later than `after` and no later than `until`; the entry lasts as long as the call.
  /// Reads the pages that have some, through the cache.
  Status visit_expiring(Millis after, Millis until, const std::function<void(const Entry& entry)>& visit) const;
  /// What the data file has that no reader of this metadata needs: as TableMetadata says. No I/O.
  [[nodiscard]] const std::vector<FileExtent>& dead_extents() const;
  /// The metadata file, read again (page checksums are not kept in memory): for page drops, tools and tests.
  [[nodiscard]] Result<TableMetadata> load_metadata() const;
  [[nodiscard]] std::uint64_t filter_bits() const;  ///< in memory
  /// Chance that what is in memory of the filter lets a lookup of a key that the table does not have go on to some page.
  [[nodiscard]] double false_positive_rate() const;
  /// Bytes of memory that the open table holds.
  [[nodiscard]] std::uint64_t memory_bytes() const;
  /// Estimated bytes of the data file within a key range, from the fences. No I/O.
  [[nodiscard]] std::uint64_t approximate_bytes(const KeyRange& range) const;
  /// Some keys of the fences, in order, about `count`, evenly spaced within `range`: for cutting a merge into sub-merges. No I/O.
  [[nodiscard]] std::vector<std::string> split_points(const KeyRange& range, std::size_t count) const;
  /// The tiles that meet the range in at most `count` pieces, in order: a key from the middle of each, and the bytes that it has
  /// of the data file. No I/O.
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> byte_samples(const KeyRange& range, std::size_t count) const;

  /// Reads everything and checks checksums, order, bounds, filters, permutations, stats. Adds what it finds to `errors`; true if
  /// clean. `stopped`, which may be null, is asked before each tile and ends it with what was found so far.
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
