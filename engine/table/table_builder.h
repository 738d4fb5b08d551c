// Writes one table: a data file of pages in delete tiles, and a metadata file that describes them (engine/docs/formats.md).
//
//   TableBuilder builder(options);
//   while (...) TRY(builder.add(entry));      // keys ascend; versions of a key descend by seq
//   builder.add_range_tombstone(t);           // may be called at any time, in any order
//   TRY_ASSIGN(built, builder.finish());      // writes and syncs both files, but not their directory
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
  FileNum data_file = kNoFile, metadata_file = kNoFile;  ///< new numbers for the two files
  std::uint32_t page_size = 4096;    ///< size of a page in bytes: before compression if h = 1, otherwise after compression
  std::uint32_t pages_per_tile = 1;  ///< pages of a delete tile (h), 1 to 64
  /// For each slice of the filter, its bits per key; at most 16 slices. Empty = no filter. Slices are loaded and dropped
  /// separately; the last slice is dropped first. Each loaded slice costs a lookup a cache miss.
  std::vector<double> filter_slices = {10};
  Compression compression = Compression::kLz4;
  SeqNum applied_seq = 0;               ///< see TableStats::applied_seq
  std::uint32_t points_at = kNoPoints;  ///< offset of the points in the keys (engine/points.h); the table stores their bounds
};

/// The written table.
struct BuiltTable {
  FileNum data_file = kNoFile, metadata_file = kNoFile;
  std::uint64_t data_bytes = 0, metadata_bytes = 0;
  std::uint64_t data_checksum = 0;      ///< sum of the checksums of the data file's blocks
  std::uint64_t metadata_checksum = 0;  ///< checksum of the whole metadata file
  std::uint64_t dead_bytes = 0;         ///< bytes of dropped and replaced pages in the data file (page_drop.h)
  TableStats stats;
};

/// Not thread-safe.
class TableBuilder {
 public:
  explicit TableBuilder(TableBuilderOptions options);
  /// Unlinks both files unless finish() succeeded.
  ~TableBuilder();
  TableBuilder(const TableBuilder&) = delete;
  TableBuilder& operator=(const TableBuilder&) = delete;

  /// Adds an entry. Entries must come in key order, versions of a key by descending seq. Returns kCorruption for an entry out of
  /// order, since a merge's entries come from files. If Entry::large is set, the value is copied from its table without being
  /// decoded. A value above kLargeValueBytes is written in blocks of its own.
  Status add(const Entry& entry);
  void add_range_tombstone(const RangeTombstone& tombstone);
  /// Lowers the table's applied_seq to `applied_seq`, unless it is lower already. Call this function if an added entry is covered
  /// by a secondary range tombstone with a seq up to the table's applied_seq. Pass a seq below the tombstone's.
  void lower_applied_seq(SeqNum applied_seq);
  /// Returns the bytes of the data file so far. The tile in progress counts with its size before compression. A merge uses the
  /// result to decide where an output file ends.
  [[nodiscard]] std::uint64_t data_bytes() const;
  [[nodiscard]] bool empty() const;
  /// Writes the rest of the table, and syncs both files. No entry or tombstone may be added afterwards.
  Result<BuiltTable> finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide
