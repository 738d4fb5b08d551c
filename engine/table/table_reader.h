// An open table. In memory: page table, fences, filters, range tombstones. Pages are read through the block cache.
//
// Its functions are in two facets. Code that only reads takes one facet, not the reader:
//
//   TableLookup      table_lookup.h      point reads, iterators, and the pages and large values that they lack
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

class OpenFiles;  // io/open_files.h

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
  OpenFiles* open_files = nullptr;    ///< opens what is read for as long as the reader lives; null: fs does
};

/// One slice of a table's filter, in memory or not.
struct SliceInfo {
  std::uint64_t bits = 0;        ///< of memory
  std::uint64_t block_bits = 0;  ///< memory is allocated in units of this
  double rate = 1;               ///< false positive rate of this slice alone, for one page
};

/// Immutable after open(), except for the loaded part of the filter; thread-safe.
class TableReader : public TableLookup, public TableInspector {
 public:
  /// Reads the metadata file whole and checks it; kCorruption names file and offset.
  static Result<std::shared_ptr<TableReader>> open(const TableReaderOptions& options, const TableFiles& files);
  /// Makes a placeholder for a table that cannot be opened: each lookup and iterator returns `why`, its filter denies no key, it
  /// has no pages. Does no I/O.
  static std::shared_ptr<TableReader> unreadable(const TableReaderOptions& options, const TableFiles& files,
                                                 const TableStats& stats, Status why);
  /// Opens the same data file with a new metadata file that was just written. `metadata` is its content and is checked as if it
  /// had been read. Reads only the data file's header.
  [[nodiscard]] Result<std::shared_ptr<TableReader>> redescribed(const TableFiles& files, Bytes metadata) const;
  ~TableReader();

  using TableInspector::files;
  using TableInspector::stats;
  using TableLookup::unreadable;

  /// All slices that the filter was built with; the first filter()->slices() of them are in memory.
  [[nodiscard]] const std::vector<SliceInfo>& slices() const;
  /// Keeps the first `count` slices in memory, or all if there are fewer; reads missing ones from the metadata file. If that
  /// fails (kIoError, kCorruption), nothing changes. Returns the old filter, which readers may still use: keep it until all
  /// current EpochGuards have ended. Null if nothing changed. One thread at a time.
  Result<std::shared_ptr<const void>> keep_slices(std::uint32_t count);

 private:
  explicit TableReader(std::unique_ptr<TableReaderImpl> impl);
  const std::unique_ptr<TableReaderImpl> impl_;
};

}  // namespace ebbtide
