// How the filter of a table is cut into slices when it is written, and which of them are in memory as the tree goes on.
//
// allocate_filters() (monkey.h) says how many bits a run's filters should have now. But a table stays while the tree around it
// changes: it is moved to a level below without being rewritten, where it is to have fewer; or the tree grows by a level under
// it, and it is to have more (by a factor T, log2(T) / ln 2 bits more). A slice is read or dropped as a whole, and each is one
// more cache line for keys that are there, so there are as few as that takes:
//   1. what the table would have in the largest run. Most tables lie there, so most have one slice in memory;
//   2. what it is to have more than that where it lies now. Absent keys hardly ever get to it, the first slice denies them;
//   3. of the largest run's tables, a reserve, on disk at first, for when the tree grows.
// Which are in memory is chosen anew with every change of the tree's files, over all of them, from the false positives that each
// slice is worth; whatever the choice, lookups stay right.
//
// Pure: numbers in, numbers out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "filter/monkey.h"

namespace ebbtide {

/// Bits per key of the slices of a table that is about to be written to runs[run], of a tree that then has `runs`, with
/// `bits_per_key` for every key of it. Empty = no filter. At most kMaxBitsPerKey in all, without the reserve.
std::vector<double> cut_filter(std::span<const FilterRun> runs, std::size_t run, double bits_per_key);

/// One slice of one table.
struct SliceWorth {
  double bits = 0;  ///< > 0, of memory, without what rounding up to whole blocks adds
  double rate = 1;  ///< chance that this slice alone says "maybe" for a key that is not there
};
struct SlicedTable {
  std::size_t run = 0;               ///< index of its run
  std::uint64_t entries = 0;         ///< its share of the run's
  std::span<const SliceWorth> have;  ///< all slices that it was built with
  std::uint32_t loaded = 0;          ///< how many of them are in memory now
};

/// How many slices of each table to have in memory, so that lookups read the fewest pages for nothing with `budget_bits` for all
/// tables. The next slice of any table is taken in the order of pages spared per bit, while there is room; one that is in memory
/// already counts for a quarter more, lest the same slices come and go. A thirty-second of the budget may be had on top by
/// first slices, since tables were built for what the tree was then and none is to be without a filter for a few bits, and by
/// another that fits by half.
std::vector<std::uint32_t> choose_slices(std::span<const FilterRun> runs, std::span<const SlicedTable> tables,
                                         double budget_bits);
/// For comparison: of every table as many as come nearest to `bits_per_key`, at least one unless that is 0.
std::vector<std::uint32_t> choose_slices_evenly(std::span<const SlicedTable> tables, double bits_per_key);

}  // namespace ebbtide
