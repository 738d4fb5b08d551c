// The loaded part of a table's filter: the first n of its slices (filter/bloom.h).
//
// A loaded filter is immutable. When slices are loaded or dropped, the table replaces its loaded filter by another one
// (TableReader::keep_slices). So a lookup needs no lock: it reads one pointer, then a cache line with the number of slices and
// the first slice.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "filter/bloom.h"

namespace ebbtide {

struct TableMetadata;  // table/metadata.h

class alignas(64) LoadedFilter {
 public:
  /// The most slices that can be in memory. Further slices are never loaded: the first n slices are a correct filter for any n.
  static constexpr std::uint32_t kMaxSlices = 16;

  /// Copies the first `count` slices of a table's filter from `m`, which decode() has checked; copies all slices if there are
  /// fewer. With 0 slices every page is a candidate.
  static std::shared_ptr<const LoadedFilter> load(const TableMetadata& m, std::uint32_t count);
  /// Returns a filter that shares the first `count` <= slices() slices of this filter, without copying them.
  [[nodiscard]] std::shared_ptr<const LoadedFilter> first(std::uint32_t count) const;

  /// Returns the pages that may have the key with this hash, by their number in a tile: bit p stands for the p-th page of each
  /// tile. Sets *tombstones to true if a tile's page of tombstones may have the key, otherwise to false.
  [[nodiscard]] std::uint64_t candidates(std::uint64_t hash, bool* tombstones) const {
    if (slices_ == 0) {
      *tombstones = true;
      return ~std::uint64_t{0};
    }
    // For each kind of page that a table has, it also has slices.
    std::uint64_t mask = has_pages_ ? ~std::uint64_t{0} : 0;
    for (std::uint32_t i = 0; has_pages_ && i < slices_ && mask != 0; ++i) mask &= pages_[i].candidates(hash);
    *tombstones = has_tombstones_;
    for (std::uint32_t i = 0; *tombstones && i < slices_; ++i) *tombstones = tombstones_[i].candidates(hash) != 0;
    return mask;
  }
  /// Returns false only if the table has no collection under the key with this hash; true may be a false positive. Filters other
  /// than FilterKind::kCollectionsTwice do not know collections: they return true for any entry of the key.
  [[nodiscard]] bool may_have_collection(std::uint64_t hash) const {
    const std::uint64_t sought = collections_twice_ ? collection_hash(hash) : hash;
    std::uint64_t mask = has_pages_ || slices_ == 0 ? ~std::uint64_t{0} : 0;
    for (std::uint32_t i = 0; i < slices_ && mask != 0; ++i) mask &= pages_[i].candidates(sought);
    return mask != 0;
  }
  /// Starts the memory loads that may_have_collection() needs.
  void prefetch_collection(std::uint64_t hash) const {
    const std::uint64_t sought = collections_twice_ ? collection_hash(hash) : hash;
    for (std::uint32_t i = 0; has_pages_ && i < slices_; ++i) pages_[i].prefetch(sought);
  }
  /// Starts the memory loads that candidates() needs.
  void prefetch(std::uint64_t hash) const {
    for (std::uint32_t i = 0; has_pages_ && i < slices_; ++i) pages_[i].prefetch(hash);
    for (std::uint32_t i = 0; has_tombstones_ && i < slices_; ++i) tombstones_[i].prefetch(hash);
  }

  [[nodiscard]] std::uint32_t slices() const { return slices_; }
  [[nodiscard]] bool empty() const { return slices_ == 0; }
  /// Number of bits of slice i < slices(), including those for pages of tombstones.
  [[nodiscard]] std::uint64_t slice_bits(std::uint32_t i) const;
  /// Returns the size of a slice's allocation unit in bits: each slice's memory is a multiple of this.
  [[nodiscard]] std::uint64_t block_bits() const;
  /// Returns the false positive rate of slice i alone for one page, computed from its bits and keys.
  [[nodiscard]] double slice_rate(std::uint32_t i) const;
  [[nodiscard]] std::uint64_t memory_bytes() const;

 private:
  using Memory = std::shared_ptr<const char>;
  const BloomView& main_slice(std::uint32_t i) const { return has_pages_ ? pages_[i] : tombstones_[i]; }

  std::uint32_t slices_ = 0;
  bool has_pages_ = false, has_tombstones_ = false;
  bool collections_twice_ = false;  ///< true if the filter's kind is FilterKind::kCollectionsTwice
  std::array<BloomView, kMaxSlices> pages_, tombstones_;
  double bits_per_key_ = 0;  ///< the table's average: used for slices that do not store their own bits per key
  /// Memory of slice i, with filters of both kinds of pages; may be shared with other LoadedFilters of the table (first()).
  std::array<Memory, kMaxSlices> memory_;
  std::array<std::uint64_t, kMaxSlices> slice_bytes_{};
};

}  // namespace ebbtide
