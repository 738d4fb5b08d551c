// Everything a reader of one tree can reach at one moment: memtables, newest first, and the open tables of its runs.
//
// A view is immutable, but its active memtable grows. A new view replaces it when a memtable is frozen or flushed, or when a compaction
// installs its result; the old view is retired to the epoch. A pass view uses it under its guard; a leased view holds it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "db/trees/tree_lookups.h"
#include "memtable/memtable.h"
#include "table/table_reader.h"
#include "version/version.h"

namespace ebbtide {

/// Files whose last reader has ended, to be unlinked. kNoFile is no file.
struct ObsoleteFiles {
  FileNum data_file = kNoFile, metadata_file = kNoFile;
};
using ObsoleteSink = std::function<void(const ObsoleteFiles& files)>;

/// A data file, shared by the tables that describe it: each drop of pages makes another table. Once the file is obsolete, the last of
/// these tables hands it to the sink. Thread-safe.
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
  /// Every reader that has the file open.
  [[nodiscard]] std::vector<std::shared_ptr<const TableReader>> readers() const;
  /// True if only `reader` has the file open: bytes that it does not use may be punched. Readers count, not tables: a fetch of a page
  /// holds only the reader.
  [[nodiscard]] bool read_only_by(const TableReader* reader) const;

 private:
  const FileNum number_;
  const ObsoleteSink* const sink_;
  std::atomic<bool> obsolete_{false};
  mutable Mutex mutex_;
  std::vector<std::weak_ptr<const TableReader>> readers_ GUARDED_BY(mutex_);
};

/// An open table. Once it is obsolete, the last view that releases it hands its metadata file to the sink.
struct OpenTable {
  OpenTable(FileMetaPtr m, std::shared_ptr<TableReader> r, std::shared_ptr<DataFile> d, const ObsoleteSink* s)
      : meta(std::move(m)), reader(std::move(r)), data(std::move(d)), sink(s) {
    data->add_reader(reader);
  }
  ~OpenTable() {
    if (obsolete.load(std::memory_order_acquire)) (*sink)({kNoFile, reader->files().metadata_file});
  }
  OpenTable(const OpenTable&) = delete;
  OpenTable& operator=(const OpenTable&) = delete;

  const FileMetaPtr meta;  ///< when the table was opened; the version has the current punched_bytes
  const std::shared_ptr<TableReader> reader;
  const std::shared_ptr<DataFile> data;
  mutable std::atomic<bool> obsolete{false};
  mutable std::atomic<std::uint64_t> filter_retry_ns{0};  ///< mono_ns() of the next try to read a slice that could not be read
  static constexpr std::uint64_t kNotEstimated = ~std::uint64_t{0};
  mutable std::atomic<std::uint64_t> covered_entries{kNotEstimated};  ///< estimated entries that its range tombstones cover
                                                                      ///< (read/key_estimate.h)
  mutable std::atomic<Millis> floor{0};  ///< once obsolete: no delete whose bytes it has was born before this
  const ObsoleteSink* const sink;
};
using OpenTablePtr = std::shared_ptr<const OpenTable>;

/// Birth of the oldest delete in the memtable; 0 = none. An expiry passed by `now` counts as a delete.
[[nodiscard]] Millis oldest_birth(const MemTable& memtable, Millis now);

/// One run, prepared for searches: an array has 8 bytes of each bound, after the common prefix. A search compares a whole bound
/// only if these bytes are equal to the key's.
class RunView {
 public:
  RunView(const Run& run, std::vector<OpenTablePtr> tables);

  /// Index of the table whose bounds contain `key`, or -1. An exclusive end that is the start of the next file belongs to that
  /// file.
  [[nodiscard]] int find(Bytes key) const;
  /// Index of the first table that ends at or after `key` (tables().size() if none).
  [[nodiscard]] std::size_t lower_bound(Bytes key) const;
  [[nodiscard]] const std::vector<OpenTablePtr>& tables() const { return tables_; }
  /// Table i, without counting a reference: for the read path.
  [[nodiscard]] const TableReader& reader(std::size_t i) const { return *readers_[i]; }
  /// True if the table has range tombstones or is unreadable. One byte answers both questions; few tables are special.
  [[nodiscard]] bool is_special(std::size_t i) const { return special_[i] != 0; }
  [[nodiscard]] bool has_range_tombstones(std::size_t i) const { return (special_[i] & kRanged) != 0; }
  [[nodiscard]] bool is_unreadable(std::size_t i) const { return (special_[i] & kUnreadable) != 0; }
  [[nodiscard]] RunId id() const { return id_; }
  [[nodiscard]] int level() const { return level_; }

 private:
  RunId id_;
  int level_;
  std::vector<OpenTablePtr> tables_;
  std::vector<const TableReader*> readers_;
  static constexpr unsigned char kRanged = 1, kUnreadable = 2;
  std::vector<unsigned char> special_;
  std::string common_;                 // the prefix of every key within the run's bounds
  std::vector<std::uint64_t> lowers_;  // the next 8 bytes of the lower bounds, big endian
  std::vector<std::uint64_t> uppers_;  // the same of the upper bounds; the largest number if there is none
};

/// The tables of a tree; shared between the TreeViews that differ only in memtables.
struct TablesView {
  VersionPtr version;
  std::vector<RunView> runs;       ///< newest first; runs without files are left out
  std::uint64_t memory_bytes = 0;  ///< of the open tables
  std::uint64_t file_bytes = 0;    ///< data and metadata
  Millis oldest_obligation = 0;    ///< birth of the oldest pending delete in the tables; 0 = none
  Millis min_expiry = 0;           ///< smallest expiry of all entries; 0 = none has one
  int newest_level_runs = 0;       ///< runs of the newest run's level with a file that may be merged
  std::vector<FileMetaPtr> quarantined;
  std::vector<KeyRange> frozen;  ///< the ranges of `quarantined` (tree/frozen.h)

  [[nodiscard]] bool is_quarantined(FileNum data_file) const;
  /// Every reader that has the data file open.
  [[nodiscard]] std::vector<std::shared_ptr<const TableReader>> readers_of(FileNum data_file) const;
  [[nodiscard]] bool is_frozen(const FileMeta& file) const;  ///< true if the file overlaps a frozen range
};

struct TreeView {
  TreeId tree = kNoTree;
  StampMode stamp = StampMode::kWriteTime;
  /// True if the tree has, or had since it was opened, any record: in the version or in a memtable.
  std::shared_ptr<const std::atomic<bool>> recorded;
  std::shared_ptr<TreeLookups> lookups;              ///< of the tree: get() counts in it
  std::vector<std::shared_ptr<MemTable>> memtables;  ///< newest first; the first one is active
  std::shared_ptr<const TablesView> tables;

  /// True if a record up to view_seq covers `entry`, the newest version of its key in the view.
  [[nodiscard]] bool deleted_by_record(const Entry& entry, SeqNum view_seq) const {
    return recorded->load(std::memory_order_relaxed) && !entry.is_tombstone() && find_record(entry, view_seq);
  }
  /// The record sets of all memtables and of the version, without empty ones.
  [[nodiscard]] std::vector<SharedRecords> record_sets() const;

 private:
  [[nodiscard]] bool find_record(const Entry& entry, SeqNum view_seq) const;
};

}  // namespace ebbtide
