// Fences, sizes and pages of an open table, read without the cache: for planners, maps, verification and tools.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <engine/bytes.h>
#include <engine/result.h>
#include "base/entry.h"
#include "base/table_stats.h"
#include "table/table_files.h"

namespace ebbtide {

struct FileExtent;       // table/metadata.h
struct ReadCounters;     // table/table_lookup.h
struct TableMetadata;    // table/metadata.h
struct TableReaderImpl;  // table/table_reader_impl.h

/// The resident fences of a page. A tile is a contiguous range of keys, a page of it a range of delete keys.
struct PageFence {
  std::uint32_t tile = 0;
  std::uint32_t flags = 0;       ///< kPage... of table/metadata.h
  bool unique_keys = false;      ///< of the tile: it has all versions of its keys in the table ...
  bool single_versions = false;  ///< ... and there is one of each
  std::uint32_t entries = 0;
  std::uint32_t stored_bytes = 0;
  // Ranges may be wider than the truth, never narrower; min > max: none has one.
  DeleteKey min_delete_key = 1, max_delete_key = 0;
  Millis min_expiry = 1, max_expiry = 0;
  SeqNum min_seq = 1, max_seq = 0;
};

/// A facet of TableReader, with its lifetime. Thread-safe.
class TableInspector {
 public:
  // --- pages and tiles, without I/O

  [[nodiscard]] std::uint32_t pages_per_tile() const;
  [[nodiscard]] std::uint32_t page_count() const;
  [[nodiscard]] std::uint32_t tile_count() const;
  /// The fence of page `page` < page_count(); pages are numbered tile by tile. O(log tiles).
  [[nodiscard]] PageFence page_fence(std::uint32_t page) const;
  /// The first tile that can have a version of `key`. Needs tile_count() > 0.
  [[nodiscard]] std::uint32_t first_tile(Bytes key) const;
  /// No key of the tile is less than this, and none of those before it greater; "" for the first tile.
  [[nodiscard]] std::string tile_start(std::uint32_t tile) const;
  /// The key range of a tile: from its fence, or the table's lower bound, to the next fence or the table's end.
  [[nodiscard]] KeyRange tile_range(std::uint32_t tile) const;

  // --- sizes, without I/O

  [[nodiscard]] const TableStats& stats() const;
  [[nodiscard]] const TableFiles& files() const;
  /// Estimated bytes of the data file within a key range, from the fences.
  [[nodiscard]] std::uint64_t approximate_bytes(const KeyRange& range) const;
  /// Some keys of the fences, in order, about `count`, evenly spaced within `range`: for cutting a merge into sub-merges.
  [[nodiscard]] std::vector<std::string> split_points(const KeyRange& range, std::size_t count) const;
  /// Divides the tiles that overlap the range into at most `count` pieces, in order: returns a key from the middle of each, and
  /// its bytes in the data file.
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> byte_samples(const KeyRange& range, std::size_t count) const;
  /// Bytes of the pages that lie in the metadata file instead of the data file.
  [[nodiscard]] std::uint64_t replaced_bytes() const;
  /// As TableMetadata::dead_extents().
  [[nodiscard]] const std::vector<FileExtent>& dead_extents() const;
  /// As TableMetadata::names_can_be_renewed().
  [[nodiscard]] bool names_can_be_renewed() const;
  /// Bits of the filter that are in memory.
  [[nodiscard]] std::uint64_t filter_bits() const;
  /// Probability that the loaded part of the filter lets a lookup of an absent key read some page.
  [[nodiscard]] double false_positive_rate() const;
  /// Bytes of memory that the open table holds.
  [[nodiscard]] std::uint64_t memory_bytes() const;

  // --- contents, with I/O

  /// Appends the key of each entry of the tile with key >= from and lo <= D < hi, once per version, in no order. Reads only pages
  /// whose fences overlap the range, through the cache; counts misses in `counters->pages_read`. Returns false if no page had to
  /// be read.
  Result<bool> collect_stamps(std::uint32_t tile, DeleteKey lo, DeleteKey hi, Bytes from, std::vector<std::string>* keys,
                              ReadCounters* counters) const;
  /// Calls `visit` for each entry that expires later than `after` and no later than `until`; the entry is valid during the call.
  /// Reads the pages with such entries through the cache.
  Status visit_expiring(Millis after, Millis until, const std::function<void(const Entry& entry)>& visit) const;
  /// Reads and decodes a page without the cache; `counters` may be null. The page must not be dropped.
  [[nodiscard]] Result<std::string> read_page(std::uint32_t page, ReadCounters* counters) const;
  /// The metadata file, read again, since page checksums are not kept in memory.
  [[nodiscard]] Result<TableMetadata> load_metadata() const;
  /// Reads everything and checks checksums, order, bounds, filters, permutations, stats. Adds faults to `errors`; true if there
  /// are none. `stopped` may be null; it is called before each tile, and ends the check if it returns true.
  bool verify(std::vector<Status>* errors, std::uint64_t* pages, std::uint64_t* entries,
              const std::function<bool()>& stopped = {}) const;
  /// The same, with the errors as text.
  bool verify(std::vector<std::string>* errors, std::uint64_t* pages, std::uint64_t* entries,
              const std::function<bool()>& stopped = {}) const;

 protected:
  explicit TableInspector(const TableReaderImpl& r) : r_(r) {}
  ~TableInspector() = default;

 private:
  const TableReaderImpl& r_;
};

}  // namespace ebbtide
