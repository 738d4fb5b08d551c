// Cuts the filter of a new table into slices, and chooses which slices are in memory as the tree changes.
//
// allocate_filters() (monkey.h) computes how many bits a run's filters should have now. But the tree changes while a table stays:
// the table may move to a lower level without being rewritten and then need fewer bits. Or the tree may grow by a level below it,
// and it needs more (for a factor T, log2(T) / ln 2 bits more). A slice is loaded or dropped as a whole. Each costs one more
// cache line for existing keys, so a table has as few as possible:
//   1. the bits that the table would have in the largest run. Most tables are there, so most have one slice in memory;
//   2. the bits that it needs beyond that in its present run. Lookups of absent keys rarely reach it, as the first slice denies
//      them;
//   3. for tables of the largest run, a reserve, on disk at first, for when the tree grows.
// After every change of the tree's files the loaded slices are chosen again, by the false positives that each slice saves.
// Lookups are correct with any choice.
//
// Pure: numbers in, numbers out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "filter/monkey.h"

namespace ebbtide {

/// Bits per key of the slices of a new table of runs[run]. `runs`: the tree with that table; `bits_per_key`: average over all
/// keys of the tree. Empty = no filter. At most kMaxBitsPerKey in all, without the reserve.
std::vector<double> cut_filter(std::span<const FilterRun> runs, std::size_t run, double bits_per_key);

/// One slice of one table.
struct SliceWorth {
  double bits = 0;  ///< > 0; bits of memory before rounding up to whole blocks
  double rate = 1;  ///< false positive rate of this slice alone
};
struct SlicedTable {
  std::size_t run = 0;               ///< index of its run
  std::uint64_t entries = 0;         ///< entries of this table
  std::span<const SliceWorth> have;  ///< all slices that it was built with
  std::uint32_t loaded = 0;          ///< how many of them are in memory now
};

/// Returns the number of slices of each table to keep in memory, so that false positives cost the fewest page reads with `budget_bits` for
/// all tables. It takes slices in the order of page reads saved per bit while there is room. A slice in memory gets a bonus of a quarter,
/// so that slices are not loaded and dropped repeatedly. First slices may exceed the budget by 1/32, and so may one more slice if half of
/// it fits: the tables were built for an earlier tree, and none should lack a filter for a few bits.
std::vector<std::uint32_t> choose_slices(std::span<const FilterRun> runs, std::span<const SlicedTable> tables,
                                         double budget_bits);
/// For comparison: the number of slices of each table whose bits are nearest to `bits_per_key`; at least one unless that is 0.
std::vector<std::uint32_t> choose_slices_evenly(std::span<const SlicedTable> tables, double bits_per_key);

}  // namespace ebbtide
