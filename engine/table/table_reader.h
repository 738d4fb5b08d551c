// An open table. Its statistics are in memory. The page table, fences, filters and range tombstones are read when the table is
// opened, or when a search needs them; the index cache decides how long they stay. Pages are read through the block cache.
//
// The functions are in two base classes (facets). Code that only reads takes a facet, not the reader:
//
//   TableLookup      table_lookup.h      point reads, iterators, and reading of missing pages and large values
//   TableInspector   table_inspector.h   fences, sizes, metadata, verification
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/block_cache.h"
#include "table/table_inspector.h"
#include "table/table_lookup.h"

namespace ebbtide {

class IndexCache;  // table/index_cache.h
class OpenFiles;   // io/open_files.h

/// "All slices": more than any filter has (LoadedFilter::kMaxSlices).
inline constexpr std::uint32_t kAllSlices = 255;

/// Receives the read errors of tables: damage, and errors of the device. Called by any thread; must not block.
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
  std::uint32_t filter_slices = kAllSlices;  ///< most slices of the filter to load; 0 = none (TableReader::keep_slices())
  DamageSink* damage = nullptr;              ///< may be null; must outlive the readers
  OpenFiles* open_files = nullptr;           ///< opens the reader's files and limits how many are open; null: fs opens them
  IndexCache* indexes = nullptr;             ///< limits the memory of indexes; null: all indexes stay in memory
};

/// One slice of a table's filter, whether it is in memory or not.
struct SliceInfo {
  std::uint64_t bits = 0;        ///< bits of memory that the slice takes
  std::uint64_t block_bits = 0;  ///< memory is allocated in multiples of this many bits
  double rate = 1;               ///< false positive rate of this slice alone, for one page
};

/// Thread-safe. A table never changes; index and filter slices are loaded into memory and unloaded.
class TableReader : public TableLookup, public TableInspector {
 public:
  /// Reads the whole metadata file and checks it. Errors of kind kCorruption name file and offset.
  static Result<std::shared_ptr<TableReader>> open(const TableReaderOptions& options, const TableFiles& files);
  /// Opens a table without I/O: the files are read and checked, as by open(), when the index is first needed. If a file is
  /// damaged, the damage is reported to options.damage, and unreadable() returns it from then on. `stats`: the statistics in the
  /// manifest.
  static std::shared_ptr<TableReader> lazy(const TableReaderOptions& options, const TableFiles& files, const TableStats& stats);
  /// Makes a placeholder for a table that cannot be opened. Each lookup and iterator returns `why`. The placeholder has no
  /// pages, and its filter denies no key. Does no I/O.
  static std::shared_ptr<TableReader> unreadable(const TableReaderOptions& options, const TableFiles& files,
                                                 const TableStats& stats, Status why);
  /// Opens the table's data file with a new metadata file that was just written. `metadata` is the content of the new file; it
  /// is checked as if it had been read. The call reads only the data file's header.
  [[nodiscard]] Result<std::shared_ptr<TableReader>> redescribed(const TableFiles& files, Bytes metadata) const;
  ~TableReader();

  using TableInspector::files;
  using TableInspector::stats;
  using TableLookup::unreadable;

  /// Returns this table. Its index is pinned in memory as long as the result lives. Reads the index if necessary. Errors are
  /// as for open(), and kAborted if the files are missing after abandon().
  [[nodiscard]] Result<std::shared_ptr<TableReader>> pinned() const;
  /// Like pinned(). If `misses` is not null, the call does no I/O: it adds a missing index to `misses` and returns kNotResident.
  [[nodiscard]] Result<std::shared_ptr<TableReader>> pinned(MissSet* misses) const;
  /// Like pinned(), but without I/O: returns null if the index is not in memory.
  [[nodiscard]] std::shared_ptr<TableReader> pinned_if_loaded() const;
  /// Call this before the files may be unlinked: from then on a missing file is not reported as damage.
  void abandon();

  /// Returns all slices of the filter in the metadata file. The first filter()->slices() slices are in memory. Empty before the
  /// index is first loaded.
  [[nodiscard]] const std::vector<SliceInfo>& slices() const;
  /// The number of slices that are in memory, or will be loaded with the index.
  [[nodiscard]] std::uint32_t kept_slices() const;
  /// Keeps the first `count` slices in memory, or all slices if there are fewer. Reads missing slices from the metadata file; if
  /// the index is not in memory, they are read later, with the index. After kIoError or kCorruption nothing has changed. Returns
  /// the old filter, or null if nothing changed. Readers may still use the old filter: keep it until all current EpochGuards have
  /// ended. One thread at a time may call keep_slices().
  Result<std::shared_ptr<const void>> keep_slices(std::uint32_t count);

 private:
  explicit TableReader(std::unique_ptr<TableReaderImpl> impl);
  static std::shared_ptr<TableReader> make(const TableReaderOptions& options, const TableFiles& files);
  Status load(Bytes metadata);
  const std::unique_ptr<TableReaderImpl> impl_;
};

}  // namespace ebbtide
