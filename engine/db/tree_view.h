// Everything a reader of one tree can reach at one moment: memtables, newest first, and the open tables of its runs.
//
// Immutable (the active memtable grows inside). Replaced as a whole when a memtable is frozen, flushed, or a compaction installs;
// the old one is retired to the epoch. A pass view uses it under its guard; a leased view holds it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "db/filters.h"
#include "memtable/memtable.h"
#include "table/table_reader.h"
#include "version/version.h"

namespace ebbtide {

/// Files whose last reader is gone; somebody unlinks them later. A number that is kNoFile is no file.
struct ObsoleteFiles {
  FileNum data_file = kNoFile, metadata_file = kNoFile;
};
using ObsoleteSink = std::function<void(const ObsoleteFiles& files)>;

/// A data file, shared by the tables that describe it: one after the other, as pages are dropped. When it is obsolete, the last
/// of them hands it over.
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
  /// Whoever has the file open.
  [[nodiscard]] std::vector<std::shared_ptr<const TableReader>> readers() const;
  /// Nobody reads the file but through `reader`: what that one has no use for may be punched. Counts readers, not tables: who
  /// fetches a page holds nothing else.
  [[nodiscard]] bool read_only_by(const TableReader* reader) const;

 private:
  const FileNum number_;
  const ObsoleteSink* const sink_;
  std::atomic<bool> obsolete_{false};
  mutable Mutex mutex_;
  std::vector<std::weak_ptr<const TableReader>> readers_ GUARDED_BY(mutex_);
};

/// An open table. When it is obsolete, the last view that lets go of it hands its metadata file over.
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

  const FileMetaPtr meta;  ///< as of when it was opened: how much is punched by now, the version knows
  const std::shared_ptr<TableReader> reader;
  const std::shared_ptr<DataFile> data;
  mutable std::atomic<bool> obsolete{false};
  mutable std::atomic<std::uint64_t> filter_retry_ns{0};  ///< a slice could not be read: not again before
  static constexpr std::uint64_t kNotEstimated = ~std::uint64_t{0};
  mutable std::atomic<std::uint64_t> covered_entries{kNotEstimated};  ///< by its range tombstones (estimate.cc)
  mutable std::atomic<Millis> floor{0};  ///< once it is obsolete: deletes whose bytes it may hold were born then or later
  const ObsoleteSink* const sink;
};
using OpenTablePtr = std::shared_ptr<const OpenTable>;

/// Birth of the oldest delete in the memtable, an expiry that has passed by `now` being one; 0 = none.
[[nodiscard]] Millis oldest_birth(const MemTable& memtable, Millis now);

/// One run, ready to be searched: the bounds' first differing 8 bytes lie side by side, so that tables are looked at only where
/// those are equal to the key's.
class RunView {
 public:
  RunView(const Run& run, std::vector<OpenTablePtr> tables);

  /// Index of the table whose bounds contain `key`, or -1. Where a range tombstone's exclusive end meets the next file's start,
  /// the next file.
  [[nodiscard]] int find(Bytes key) const;
  /// Index of the first table that ends at or after `key` (tables().size() if none).
  [[nodiscard]] std::size_t lower_bound(Bytes key) const;
  [[nodiscard]] const std::vector<OpenTablePtr>& tables() const { return tables_; }
  /// Table i without its count: for the read path.
  [[nodiscard]] const TableReader& reader(std::size_t i) const { return *readers_[i]; }
  /// Most tables are neither: one look at a byte for both.
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
  std::string common_;                 // what every key within the run's bounds begins with
  std::vector<std::uint64_t> lowers_;  // 8 bytes of the lower bounds after it, big endian
  std::vector<std::uint64_t> uppers_;  // and of the upper bounds; the largest number if there is none
};

/// The tables of a tree; shared between the TreeViews that differ only in memtables.
struct TablesView {
  VersionPtr version;
  std::vector<RunView> runs;       ///< newest first; runs without files are left out
  std::uint64_t memory_bytes = 0;  ///< of the open tables
  std::uint64_t file_bytes = 0;    ///< data and metadata
  Millis oldest_obligation = 0;    ///< oldest birth that a table owes something to; 0 = none does
  Millis min_expiry = 0;           ///< smallest expiry of all entries; 0 = none has one
  int newest_level_runs =
      0;  ///< runs of the level that the newest run lies in; those without files that may be merged not counted
  std::vector<FileMetaPtr> quarantined;
  std::vector<KeyRange> frozen;  ///< their ranges (tree/frozen.h)

  [[nodiscard]] bool is_quarantined(FileNum data_file) const;
  /// Whoever has the data file open.
  [[nodiscard]] std::vector<std::shared_ptr<const TableReader>> readers_of(FileNum data_file) const;
  [[nodiscard]] bool is_frozen(const FileMeta& file) const;  ///< the file meets a frozen range
};

struct TreeView {
  TreeId tree = kNoTree;
  StampMode stamp = StampMode::kWriteTime;
  /// Whether the tree has, or since it was opened had, any record: in the version or in a memtable.
  std::shared_ptr<const std::atomic<bool>> recorded;
  std::shared_ptr<TreeLookups> lookups;              ///< of the tree: get() counts in it
  std::vector<std::shared_ptr<MemTable>> memtables;  ///< newest first; the first one is active
  std::shared_ptr<const TablesView> tables;

  /// Whether a record up to view_seq covers this version, the newest of its key in the view.
  [[nodiscard]] bool deleted_by_record(const Entry& entry, SeqNum view_seq) const {
    return recorded->load(std::memory_order_relaxed) && !entry.is_tombstone() && find_record(entry, view_seq);
  }
  /// Of all memtables and of the version; empty sets are left out.
  [[nodiscard]] std::vector<SharedRecords> record_sets() const;

 private:
  [[nodiscard]] bool find_record(const Entry& entry, SeqNum view_seq) const;
};

}  // namespace ebbtide
