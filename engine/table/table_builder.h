// Writes one table: a data file of pages in delete tiles, and a metadata file that describes them (engine/docs/formats.md).
//
//   TableBuilder builder(options);
//   while (...) TRY(builder.add(entry));      // key ascending, seq descending
//   builder.add_range_tombstone(t);           // any time, any order
//   TRY_ASSIGN(built, builder.finish());      // both files written and synced; directory not yet
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <engine/options.h>
#include "base/entry.h"
#include "base/table_stats.h"
#include "io/file_system.h"

namespace ebbtide {

struct TableBuilderOptions {
  FileSystem* fs = nullptr;
  std::string dir;
  FileNum data_file = kNoFile, metadata_file = kNoFile;  ///< numbers of the two files, both fresh
  std::uint32_t page_size = 4096;                        ///< bytes of a page: before compression if h = 1, else after it
  std::uint32_t pages_per_tile = 1;                      ///< h, 1 to 64
  /// Bits per key of the filter's slices, at most 16. Slices are loaded and dropped separately, the last one first; each loaded
  /// slice costs a lookup a cache miss. Empty = no filter.
  std::vector<double> filter_slices = {10};
  Compression compression = Compression::kLz4;
  SeqNum applied_seq = 0;
};

/// The written table.
struct BuiltTable {
  FileNum data_file = kNoFile, metadata_file = kNoFile;
  std::uint64_t data_bytes = 0, metadata_bytes = 0;
  std::uint64_t data_checksum = 0;      ///< over the pages' checksums
  std::uint64_t metadata_checksum = 0;  ///< over the whole metadata file
  std::uint64_t dead_bytes = 0;         ///< of the data file: dropped and replaced pages (page_drop.h)
  TableStats stats;
};

/// Not thread-safe.
class TableBuilder {
 public:
  explicit TableBuilder(TableBuilderOptions options);
  /// Unlinks the files unless finish() succeeded.
  ~TableBuilder();
  TableBuilder(const TableBuilder&) = delete;
  TableBuilder& operator=(const TableBuilder&) = delete;

  /// Entries must come in key order, versions of a key by descending seq. Otherwise kCorruption, since a merge's entries come
  /// from files. An entry with `large` set is copied from its table without being decoded. A value above kLargeValueBytes is
  /// written as blocks of its own.
  Status add(const Entry& entry);
  void add_range_tombstone(const RangeTombstone& tombstone);
  /// Lowers the options' applied_seq. Needed if an entry stays although a secondary range tombstone of at most that seq covers
  /// it.
  void lower_applied_seq(SeqNum applied_seq);
  /// Bytes of the data file so far, the tile in progress included (before compression): for the splitting of outputs.
  [[nodiscard]] std::uint64_t data_bytes() const;
  [[nodiscard]] bool empty() const;
  Result<BuiltTable> finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide
