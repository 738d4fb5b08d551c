// Collects the entries of one delete tile and decides which page each entry goes to.
//
// The tile takes entries in sort-key order until it is full. All versions of a key go into one tile, unless their bytes alone far
// exceed a tile's size. The tile's values are then sorted by delete key, values without a stamp last, and cut into h parts with
// equal numbers of entries. Each part, sorted by sort key again, is a page. For h > 1 the tile's tombstones form one more page.
// Tombstones stay longer than the values around them, so a page with tombstones among its values could not be dropped.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "table/page_builder.h"

namespace ebbtide {

/// The entries of each page of a tile: indexes in sort-key order.
struct TilePages {
  std::vector<std::vector<std::uint32_t>>
      pages;  ///< the entries of each page; pages in delete-key order, that of tombstones last
  bool last_is_tombstones = false;
  std::vector<std::uint8_t> order;  ///< for each entry in sort-key order, the number of its page
};

/// One builder builds all tiles of a table, one after the other. Not thread-safe.
class TileBuilder {
 public:
  explicit TileBuilder(std::uint32_t pages_per_tile) : pages_per_tile_(pages_per_tile) {}

  /// Adds an entry, with copies of key and value. Entries must come in sort-key order.
  void add(const Entry& entry, std::uint64_t hash);
  void clear();
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] const std::vector<PendingEntry>& entries() const { return entries_; }
  /// Returns true if no key has two versions in the tile.
  [[nodiscard]] bool single_versions() const { return !repeated_; }
  [[nodiscard]] Bytes last_key() const { return entries_.back().entry.key; }
  /// Returns the approximate bytes of the tile's pages before compression.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_ - entries_.size() * prefix_bytes_; }
  /// Returns the result that bytes() would have after add(`entry`).
  [[nodiscard]] std::uint64_t bytes_with(const Entry& entry) const;
  /// Distributes the entries over pages. Requires at least one entry. `page_bytes`: the intended bytes of a page before
  /// compression.
  void split(std::uint64_t page_bytes, TilePages* out) const;

 private:
  Bytes copy(Bytes bytes);
  static std::uint64_t entry_bytes(const Entry& entry);
  /// Returns the value of prefix_bytes_ after `key` is added. Requires at least one entry.
  [[nodiscard]] std::size_t prefix_with(Bytes key) const;

  const std::uint32_t pages_per_tile_;
  std::vector<PendingEntry> entries_;
  std::uint64_t bytes_ = 0;
  bool repeated_ = false;         ///< true if a key has several versions
  std::size_t prefix_bytes_ = 0;  ///< length of the common prefix of all keys so far
  // Chunks of memory for keys and values. Chunks do not move, and the next tile uses them again.
  static constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
  std::vector<std::unique_ptr<char[]>> chunks_, oversized_;
  std::size_t chunk_ = 0, used_ = kChunkBytes;
};

}  // namespace ebbtide
