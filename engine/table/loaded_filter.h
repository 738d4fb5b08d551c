// The loaded part of a table's filter: the first n of its slices (filter/bloom.h).
//
// Immutable. A table has one at a time; it is replaced when slices are loaded or dropped (TableReader::keep_slices). So a lookup
// needs no lock: it reads one pointer, then a cache line with the count and the first slice.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "filter/bloom.h"

namespace ebbtide {

struct TableMetadata;  // table/metadata.h

class alignas(64) LoadedFilter {
 public:
  /// Further slices stay on disk: the first n slices are a correct filter.
  static constexpr std::uint32_t kMaxSlices = 16;

  /// Copies the first `count` slices of a table's filter, or all if there are fewer, from `m`, which decode() has checked. With 0
  /// slices every page is a candidate.
  static std::shared_ptr<const LoadedFilter> load(const TableMetadata& m, std::uint32_t count);
  /// The first `count` <= slices() of these, without a copy.
  [[nodiscard]] std::shared_ptr<const LoadedFilter> first(std::uint32_t count) const;

  /// Candidate pages of any tile for a key: bit p is the p-th page; *tombstones: the page of tombstones too.
  [[nodiscard]] std::uint64_t candidates(std::uint64_t hash, bool* tombstones) const {
    if (slices_ == 0) {
      *tombstones = true;
      return ~std::uint64_t{0};
    }
    // A table without slices for a kind of page has no such page.
    std::uint64_t mask = has_pages_ ? ~std::uint64_t{0} : 0;
    for (std::uint32_t i = 0; has_pages_ && i < slices_ && mask != 0; ++i) mask &= pages_[i].candidates(hash);
    *tombstones = has_tombstones_;
    for (std::uint32_t i = 0; *tombstones && i < slices_; ++i) *tombstones = tombstones_[i].candidates(hash) != 0;
    return mask;
  }
  /// Starts the loads that candidates() needs.
  void prefetch(std::uint64_t hash) const {
    for (std::uint32_t i = 0; has_pages_ && i < slices_; ++i) pages_[i].prefetch(hash);
    for (std::uint32_t i = 0; has_tombstones_ && i < slices_; ++i) tombstones_[i].prefetch(hash);
  }

  [[nodiscard]] std::uint32_t slices() const { return slices_; }
  [[nodiscard]] bool empty() const { return slices_ == 0; }
  /// Bits of slice i < slices(), with those for pages of tombstones.
  [[nodiscard]] std::uint64_t slice_bits(std::uint32_t i) const;
  /// Bits are allocated in units of this.
  [[nodiscard]] std::uint64_t block_bits() const;
  /// False positive rate of slice i alone for one page, from its bits and keys.
  [[nodiscard]] double slice_rate(std::uint32_t i) const;
  [[nodiscard]] std::uint64_t memory_bytes() const;

 private:
  using Memory = std::shared_ptr<const char>;
  const BloomView& main_slice(std::uint32_t i) const { return has_pages_ ? pages_[i] : tombstones_[i]; }

  std::uint32_t slices_ = 0;
  bool has_pages_ = false, has_tombstones_ = false;
  std::array<BloomView, kMaxSlices> pages_, tombstones_;
  double bits_per_key_ = 0;                ///< from the table's properties, for slices that do not store theirs
  std::array<Memory, kMaxSlices> memory_;  ///< slice i of both kinds; shared with the filter that was loaded before
  std::array<std::uint64_t, kMaxSlices> slice_bytes_{};
};

}  // namespace ebbtide
