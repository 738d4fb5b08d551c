// Everything that a reader of one tree can reach at one moment: the memtables, newest first, and the open tables of the runs.
//
// A view is immutable, except that its active memtable grows. A new view replaces it when a memtable is frozen or flushed, or
// when a compaction installs its result; the old view is retired to the epoch. A pass view uses a tree's view inside the epoch; a
// leased view owns a reference.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/shared_list.h"
#include "db/trees/tree_lookups.h"
#include "memtable/memtable.h"
#include "table/table_reader.h"
#include "version/version.h"

namespace ebbtide {

/// Files to unlink, since no reader has them any more. kNoFile stands for no file.
struct ObsoleteFiles {
  FileNum data_file = kNoFile, metadata_file = kNoFile;
};
using ObsoleteSink = std::function<void(const ObsoleteFiles& files)>;

/// A data file, shared by all tables that describe it: each page drop makes a new table with the same data file. If the file is
/// obsolete, the destructor passes it to the sink. Thread-safe.
class DataFile {
 public:
  DataFile(FileNum number, const ObsoleteSink* sink) : number_(number), sink_(sink) {}
  ~DataFile() {
    if (obsolete_.load(std::memory_order_acquire)) (*sink_)({number_, kNoFile});
  }
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  void retire() { obsolete_.store(true, std::memory_order_release); }
  void add_reader(std::weak_ptr<const TableReader> reader);
  /// Returns every reader that has the file open.
  [[nodiscard]] std::vector<std::shared_ptr<const TableReader>> readers() const;
  /// True if only `reader` has the file open: then bytes that `reader` does not use may be punched. Readers are counted, not
  /// tables, since a fetch of a page holds only the reader.
  [[nodiscard]] bool read_only_by(const TableReader* reader) const;

 private:
  const FileNum number_;
  const ObsoleteSink* const sink_;
  std::atomic<bool> obsolete_{false};
  mutable Mutex mutex_;
  std::vector<std::weak_ptr<const TableReader>> readers_ GUARDED_BY(mutex_);
};

/// An open table. Once the table is obsolete, the destructor passes its metadata file to the sink.
struct OpenTable {
  OpenTable(FileMetaPtr m, std::shared_ptr<TableReader> r, std::shared_ptr<DataFile> d, const ObsoleteSink* s)
      : meta(std::move(m)), reader(std::move(r)), data(std::move(d)), sink(s) {
    data->add_reader(reader);
  }
  ~OpenTable() {
    if (!obsolete.load(std::memory_order_acquire)) return;
    reader->abandon();  // a fetch of pages may hold the reader longer than any view
    (*sink)({kNoFile, reader->files().metadata_file});
  }
  OpenTable(const OpenTable&) = delete;
  OpenTable& operator=(const OpenTable&) = delete;

  const FileMetaPtr meta;  ///< the metadata when the table was opened; only the version has the current punched_bytes
  const std::shared_ptr<TableReader> reader;
  const std::shared_ptr<DataFile> data;
  mutable std::atomic<bool> obsolete{false};
  /// The time (mono_ns()) at which a filter slice that could not be read is tried again.
  mutable std::atomic<std::uint64_t> filter_retry_ns{0};
  static constexpr std::uint64_t kNotEstimated = ~std::uint64_t{0};
  /// Estimated number of entries that the table's range tombstones cover (read/key_estimate.h).
  mutable std::atomic<std::uint64_t> covered_entries{kNotEstimated};
  /// For the purge ledger: every delete that has bytes in the table was born at this engine time or later. Valid once the table
  /// is obsolete.
  mutable std::atomic<Millis> floor{0};
  const ObsoleteSink* const sink;
};
using OpenTablePtr = std::shared_ptr<const OpenTable>;

/// Returns the birth of the oldest delete in the memtable; 0 = none. An expiry that has passed at `now` counts as a delete.
[[nodiscard]] Millis oldest_birth(const MemTable& memtable, Millis now);

/// The sums over a chunk of tables.
struct TableSums {
  std::uint64_t keys = 0;          ///< TableStats::filter_keys()
  std::uint64_t read_keys = 0;     ///< keys of tables whose index was ever read: their pages per tile are known
  std::uint64_t tile_pages = 0;    ///< sum, over all read_keys, of the pages per tile of the key's table
  std::uint64_t memory_bytes = 0;  ///< bytes of the readers, without their indexes and filters
  std::uint64_t special = 0;       ///< number of tables that have range tombstones or are unreadable

  static TableSums of(std::span<const OpenTablePtr> tables);
};

/// The tables of a run. Views of one tree share the chunks that have not changed (base/shared_list.h).
using TableList = SharedList<OpenTablePtr, TableSums>;

/// One run, prepared for searches: arrays have 8 bytes of each bound, after the common prefix. A search compares a whole bound
/// only if the bound's 8 bytes equal the key's 8 bytes.
class RunView {
 public:
  /// `earlier`, which may be null, is the same run in an earlier view: for chunks that both views have, arrays are copied from
  /// `earlier`.
  RunView(const Run& run, TableList tables, const RunView* earlier = nullptr);

  /// Returns the index of the table whose bounds contain `key`, or -1. If a table's exclusive end is the next table's start, that
  /// key belongs to the next table.
  [[nodiscard]] int find(Bytes key) const;
  /// Returns the index of the first table that ends at or after `key` (tables().size() if there is none).
  [[nodiscard]] std::size_t lower_bound(Bytes key) const;
  [[nodiscard]] const TableList& tables() const { return tables_; }
  [[nodiscard]] TableSums sums() const;
  /// Returns the table of a file of the run; null if the run does not have the file.
  [[nodiscard]] const OpenTable* table_of(const FileMeta& file) const;
  /// Computes sums() again: TableSums::read_keys grows when the index of a table is read.
  void measure() { tables_.reseal(); }
  /// Returns the reader of table i, without counting a reference, for the read path.
  [[nodiscard]] const TableReader& reader(std::size_t i) const { return *readers_[i]; }
  /// True if the table has range tombstones or is unreadable. A lookup tests both by one byte, since both are rare.
  [[nodiscard]] bool is_special(std::size_t i) const { return (special_[i] & (kRanged | kUnreadable)) != 0; }
  [[nodiscard]] bool has_range_tombstones(std::size_t i) const { return (special_[i] & kRanged) != 0; }
  [[nodiscard]] bool is_unreadable(std::size_t i) const { return (special_[i] & kUnreadable) != 0; }
  /// False if no entry of table i is a collection.
  [[nodiscard]] bool has_collections(std::size_t i) const { return (special_[i] & kCollections) != 0; }
  /// Returns the table whose bounds allow a collection of `key`; null if there is no such table.
  [[nodiscard]] const TableLookup* with_collections(Bytes key) const {
    const int i = any_collections_ ? find(key) : -1;
    return i >= 0 && has_collections(static_cast<std::size_t>(i)) ? &reader(static_cast<std::size_t>(i)) : nullptr;
  }
  [[nodiscard]] RunId id() const { return id_; }
  [[nodiscard]] int level() const { return level_; }

 private:
  void copy_arrays(const RunView& from, std::size_t first, std::size_t count);
  void add_to_arrays(const OpenTable& table);

  RunId id_;
  int level_;
  TableList tables_;
  std::vector<const TableReader*> readers_;
  static constexpr unsigned char kRanged = 1, kUnreadable = 2, kCollections = 4;
  std::vector<unsigned char> special_;
  bool any_collections_ = false;
  std::string common_;                 // the prefix of every key within the run's bounds
  std::vector<std::uint64_t> lowers_;  // the next 8 bytes of the lower bounds, big endian
  std::vector<std::uint64_t> uppers_;  // the same for the upper bounds; the largest number for a table without upper bound
};

struct FilterFit;

/// The open tables of a tree. TreeViews that differ only in memtables share one TablesView.
struct TablesView {
  VersionPtr version;
  std::vector<RunView> runs;       ///< newest first; runs without files are left out
  std::uint64_t memory_bytes = 0;  ///< bytes of the open tables in memory, without indexes and filters (table/index_cache.h)
  std::uint64_t file_bytes = 0;    ///< bytes of data and metadata files
  Millis oldest_obligation = 0;    ///< birth of the oldest pending delete in the tables, without deletes by records; 0 = none
  Millis min_expiry = 0;           ///< smallest expiry of all entries; 0 = no entry has an expiry
  bool collections = false;        ///< false: no entry is a collection (is_collection())
  bool headers = false;            ///< false: no entry is the header of a large collection
  /// Describes the tree at the last fitting of all its filters (db/read/filter_memory.h); null: filters were never fitted.
  std::shared_ptr<const FilterFit> fitted;
  int level0_runs = 0;  ///< number of runs on level 0 that have a file that may be merged
  std::vector<FileMetaPtr> quarantined;
  std::vector<KeyRange> frozen;  ///< the key ranges of `quarantined` (tree/frozen.h)

  [[nodiscard]] bool is_quarantined(FileNum data_file) const;
  /// Returns every reader that has the data file open.
  [[nodiscard]] std::vector<std::shared_ptr<const TableReader>> readers_of(FileNum data_file) const;
  [[nodiscard]] bool is_frozen(const FileMeta& file) const;  ///< true if the file overlaps a frozen range
};

struct TreeView {
  TreeId tree = kNoTree;
  StampMode stamp = StampMode::kWriteTime;
  /// True if the tree has a record, in the version or in a memtable, or had one since it was opened.
  std::shared_ptr<const std::atomic<bool>> recorded;
  std::shared_ptr<TreeLookups> lookups;              ///< counters of the tree's lookups; get() counts in them
  std::vector<std::shared_ptr<MemTable>> memtables;  ///< newest first; the first is active
  std::shared_ptr<const TablesView> tables;

  /// True if a record with seq <= view_seq covers `entry`, the newest version of its key in the view.
  [[nodiscard]] bool deleted_by_record(const Entry& entry, SeqNum view_seq) const {
    return recorded->load(std::memory_order_relaxed) && !entry.is_tombstone() && find_record(entry, view_seq);
  }
  /// Returns the oldest birth of the records with seq <= view_seq that cover `entry`; 0 if there are none.
  [[nodiscard]] Millis record_birth(const Entry& entry, SeqNum view_seq) const;
  /// False only if no entry is a collection (is_collection()), hidden versions included. True may be a false positive.
  [[nodiscard]] bool may_have_collections() const {
    return tables->collections ||
           std::any_of(memtables.begin(), memtables.end(), [](const auto& memtable) { return memtable->has_collections(); });
  }
  /// False only if no entry is the header of a large collection, hidden versions included. True may be a false positive.
  [[nodiscard]] bool may_have_headers() const {
    return tables->headers ||
           std::any_of(memtables.begin(), memtables.end(), [](const auto& memtable) { return memtable->has_headers(); });
  }
  /// False only if the version of `key` that a view of `view_seq` finds is not a collection. True may be a false positive.
  [[nodiscard]] bool may_have_collection(const LookupKey& key, SeqNum view_seq) const;
  /// Returns the record sets of all memtables and of the version, without empty sets.
  [[nodiscard]] std::vector<SharedRecords> record_sets() const;

 private:
  [[nodiscard]] bool find_record(const Entry& entry, SeqNum view_seq) const;
};

}  // namespace ebbtide
