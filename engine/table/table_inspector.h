// Fences, sizes and pages of an open table, for planners, tree maps, verification and tools.
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

/// The fences of a page, which are in memory, and its flags. A tile has a contiguous range of sort keys; each of its pages has
/// a range of delete keys.
struct PageFence {
  std::uint32_t tile = 0;
  std::uint32_t flags = 0;       ///< kPage... of table/metadata.h
  bool unique_keys = false;      ///< true if no other tile of the table has a version of a key of the page's tile
  bool single_versions = false;  ///< true if, in addition, each key of the tile has only one version in the table
  std::uint32_t entries = 0;
  std::uint32_t stored_bytes = 0;
  // Ranges of the entries' delete keys, expiries and seqs, rounded outward. min > max: no entry has a delete key, or expiry.
  DeleteKey min_delete_key = 1, max_delete_key = 0;
  Millis min_expiry = 1, max_expiry = 0;
  SeqNum min_seq = 1, max_seq = 0;
};

/// The part of TableReader for planners, tree maps, verification and tools. Lives as long as the reader. Thread-safe. Functions
/// under "without I/O", except those marked with *, require that the index stays in memory: the caller has a pin
/// (TableReader::pinned), or the table was opened without an index cache.
class TableInspector {
 public:
  // --- pages and tiles, without I/O

  [[nodiscard]] std::uint32_t pages_per_tile() const;  ///< * returns 0 before the index is first loaded
  [[nodiscard]] std::uint32_t page_count() const;
  [[nodiscard]] std::uint32_t tile_count() const;  ///< * returns 0 before the index is first loaded
  /// Returns the fence of page `page` < page_count(). Pages are numbered tile by tile. O(log tiles).
  [[nodiscard]] PageFence page_fence(std::uint32_t page) const;
  /// Returns the first tile that can have a version of `key`. Requires tile_count() > 0.
  [[nodiscard]] std::uint32_t first_tile(Bytes key) const;
  /// Returns the tile's separator; "" for the first tile. It is not greater than any key of the tile, and not less than any key
  /// of earlier tiles.
  [[nodiscard]] std::string tile_start(std::uint32_t tile) const;
  /// Returns the key range of a tile: from its fence, or the table's lower bound, to the next fence or the table's end.
  [[nodiscard]] KeyRange tile_range(std::uint32_t tile) const;

  // --- sizes, without I/O

  [[nodiscard]] const TableStats& stats() const;  ///< * does not need the index
  [[nodiscard]] const TableFiles& files() const;  ///< * does not need the index
  /// Returns the estimated number of bytes of the data file within a key range, computed from the fences.
  [[nodiscard]] std::uint64_t approximate_bytes(const KeyRange& range) const;
  /// Returns about `count` separators within `range`, in order, evenly spaced. For cutting a merge into sub-merges.
  [[nodiscard]] std::vector<std::string> split_points(const KeyRange& range, std::size_t count) const;
  /// Divides the tiles that overlap the range into at most `count` parts, in order. Returns a key from the middle of each part,
  /// and the part's bytes in the data file.
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> byte_samples(const KeyRange& range, std::size_t count) const;
  /// Returns the bytes of the replaced pages, which are in the metadata file.
  [[nodiscard]] std::uint64_t replaced_bytes() const;
  /// Returns TableMetadata::dead_extents() of the table.
  [[nodiscard]] const std::vector<FileExtent>& dead_extents() const;
  /// Returns TableMetadata::names_can_be_renewed() of the table.
  [[nodiscard]] bool names_can_be_renewed() const;
  /// * Number of the filter's bits that are in memory.
  [[nodiscard]] std::uint64_t filter_bits() const;
  /// * Probability that a lookup of an absent key reads some page, by the slices of the filter that are in memory or will be
  /// loaded with the index. 1 before the index is first loaded.
  [[nodiscard]] double false_positive_rate() const;
  /// * Bytes of memory that the open table takes now.
  [[nodiscard]] std::uint64_t memory_bytes() const;
  /// * Bytes of memory that the open table takes after index and filter are unloaded.
  [[nodiscard]] std::uint64_t resident_bytes() const;

  // --- contents, with I/O

  /// Finds the entries of the tile with key >= from and lo <= D < hi. Appends their keys to `keys`, once per version, in no
  /// order. Reads, through the block cache, only pages whose delete fences overlap [lo, hi); counts cache misses in
  /// `counters->pages_read`. Returns true if the tile has such pages.
  Result<bool> collect_stamps(std::uint32_t tile, DeleteKey lo, DeleteKey hi, Bytes from, std::vector<std::string>* keys,
                              ReadCounters* counters) const;
  /// Calls `visit` for each entry with after < expiry <= until. The entry is valid during the call. Reads the pages with such
  /// entries through the block cache.
  Status visit_expiring(Millis after, Millis until, const std::function<void(const Entry& entry)>& visit) const;
  /// * Calls `visit` for the headers of collections in the pages for which `wanted` returns true, until `visit` returns an error.
  Status visit_headers(const std::function<bool(const PageFence& fence)>& wanted,
                       const std::function<Status(const Entry& header)>& visit) const;
  /// Reads and decodes a page without the cache. `counters` may be null. The page must not have been dropped.
  [[nodiscard]] Result<std::string> read_page(std::uint32_t page, ReadCounters* counters) const;
  /// Reads and decodes the metadata file again. For data that is not kept in memory, such as the checksums of pages.
  [[nodiscard]] Result<TableMetadata> load_metadata() const;
  /// Reads the whole table and checks checksums, order, bounds, filters, permutations and statistics. Appends faults to `errors`;
  /// returns true if there are no faults. Sets `pages` and `entries` to how many pages and entries were checked. `stopped` may be
  /// null; verify() calls it before each tile, and ends when the result is true.
  bool verify(std::vector<Status>* errors, std::uint64_t* pages, std::uint64_t* entries,
              const std::function<bool()>& stopped = {}) const;
  /// Like the other verify(), but returns the errors as text.
  bool verify(std::vector<std::string>* errors, std::uint64_t* pages, std::uint64_t* entries,
              const std::function<bool()>& stopped = {}) const;

 protected:
  explicit TableInspector(const TableReaderImpl& r) : r_(r) {}
  ~TableInspector() = default;

 private:
  const TableReaderImpl& r_;
};

}  // namespace ebbtide
