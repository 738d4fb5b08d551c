// Blocked Bloom filters with columns: one filter for a whole table. A single test finds all pages of a tile that may have a key.
//
// A table of tiles with h pages has a filter of h columns; column c has the keys of the c-th page of every tile. The filter is
// a sequence of blocks; a block is 512 rows of h bits. A key's hash selects one block and k rows in it. The AND of these rows
// is the set of columns, and so of pages, that may have the key. It follows:
//   * A lookup tests the filter before it searches the fences. For an absent key the test costs one cache line at h = 1 (a block
//     is 64 bytes), and otherwise k independent loads from 64 h adjacent bytes. A lookup computes one hash; in Lethe (4.2.4) it
//     computes h hashes.
//   * Each page has the false positive rate p that a separate filter with the same memory would have. The sum over the pages of a
//     tile is h p, as in the paper.
//   * Dropping a page needs no new filter: the page's keys stay in the column, and a lookup of such a key ends at the page's
//     "dropped" flag, without I/O. Replacing a page needs no new filter either, since the new page holds no other keys.
// Considered and rejected: a filter per page that is tested after the fence search. It costs two more dependent cache misses
// for an absent key.
//
// A filter is cut into slices: independent filters of the same keys, each with another hash and a part of the bits. A page is a
// candidate only if all slices say "maybe". Any subset of the slices is a correct filter, so slices are loaded and dropped
// separately.
//
// A filter may have the keys of collections twice: by their hash, and by the collection_hash() of that hash. Then the filter also
// answers whether the table may have a collection under a key. SET needs this answer before it overwrites a key
// (ReadView::may_have_collection).
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include <engine/result.h>
#include <engine/types.h>

namespace ebbtide {

/// Number of rows of a block, which is also the number of bits of one column in a block.
inline constexpr std::uint32_t kBloomRows = 512;
inline constexpr std::uint32_t kMaxBloomColumns = 64;
inline constexpr double kMaxBitsPerKey = 32;

/// Returns the second hash of a collection's key. Filters on disk depend on it.
constexpr std::uint64_t collection_hash(std::uint64_t hash) { return std::rotl(hash, 32) * 0x9fb21c651e98df25u; }

/// Returns the false positive rate of one column at `bits_per_key`, which may be a fraction; 1 at 0 bits. Assumes that
/// bloom_probes() rows are tested, and that keys are distributed over blocks by a Poisson distribution and over rows at random
/// (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, Eq. 3). Thread-safe.
double expected_false_positive_rate(double bits_per_key);
/// Returns the number k of tested rows (probes) that gives the smallest false positive rate; at least 1.
std::uint32_t bloom_probes(double bits_per_key);

/// Collects the hashes of a table's keys and builds filters. Not thread-safe.
class BloomBuilder {
 public:
  /// `columns` is from 1 to kMaxBloomColumns.
  explicit BloomBuilder(std::uint32_t columns);
  /// Adds a key to a column. If a key is added twice in a row to a column, it counts once.
  void add(std::uint32_t column, std::uint64_t hash);
  [[nodiscard]] bool empty() const { return keys_ == 0; }
  [[nodiscard]] std::uint64_t keys() const { return keys_; }
  /// Returns the bytes of slice number `slice`. The slice alone has `bits_per_key` > 0 bits per key.
  [[nodiscard]] std::string build(double bits_per_key, std::uint32_t slice) const;

 private:
  std::uint32_t columns_;
  std::uint64_t keys_ = 0;
  std::vector<std::vector<std::uint64_t>> hashes_;  ///< hashes of the keys, by column
};

/// One slice in memory. Immutable. Refers to bytes that must outlive the view.
class BloomView {
 public:
  BloomView() = default;
  /// Returns kCorruption if the bytes are not a slice.
  static Result<BloomView> parse(Bytes slice);

  /// Returns the columns that may have the key with this hash: bit c stands for column c.
  [[nodiscard]] std::uint64_t candidates(std::uint64_t hash) const;
  /// Starts the loads that candidates() needs.
  void prefetch(std::uint64_t hash) const;
  [[nodiscard]] std::uint32_t columns() const { return columns_; }
  [[nodiscard]] std::uint64_t bits() const { return blocks_ * kBloomRows * columns_; }
  /// Returns the number of keys from which the slice was built; a key counts once for each column that has it. 0 = unknown.
  [[nodiscard]] std::uint32_t keys() const { return keys_; }

 private:
  const char* blocks_begin_ = nullptr;
  std::uint64_t blocks_ = 0;
  std::uint64_t salt_ = 0;
  std::uint32_t keys_ = 0;
  std::uint8_t columns_ = 0;
  std::uint8_t probes_ = 0;
};
static_assert(sizeof(BloomView) == 32, "two of them lie on a cache line");

}  // namespace ebbtide
