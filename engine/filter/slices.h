// Cuts the filter of a new table into slices, and chooses which slices are in memory as the tree changes.
//
// allocate_filters() (monkey.h) computes how many bits a run's filters should have now. But the tree changes while a table
// stays. If the table moves to a deeper level without being rewritten, it needs fewer bits. If the tree grows by a level below
// the table, the table needs log2(T) / ln 2 more bits per key, for a size ratio of T. A slice is loaded or dropped as a whole.
// Each slice costs a lookup of an existing key one more cache line, so a table has as few slices as possible:
//   1. the bits that the table would have in the largest run. Most tables are there, so most tables have one slice in memory;
//   2. the further bits that the table needs in its present run. Lookups of absent keys rarely test this slice, since the first
//      slice excludes most of them;
//   3. for tables of the largest run, bits in reserve for when the tree grows. This slice is only on disk at first.
// After every change of the tree's files the slices to load are chosen again, by the false positives that each slice saves.
// Lookups are correct whatever slices are loaded.
//
// Pure: the functions compute with numbers only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "filter/monkey.h"

namespace ebbtide {

/// Returns, for each run, the bits per key of each slice of a new table of that run; an empty list = no filter. `runs`: the
/// runs of the tree, the new table included. `bits_per_key`: average over all keys of the tree. Without the reserve, the slices
/// of a table sum to at most kMaxBitsPerKey.
std::vector<std::vector<double>> cut_filters(std::span<const FilterRun> runs, double bits_per_key);

/// One slice of one table.
struct SliceWorth {
  double bits = 0;  ///< > 0; bits of memory before rounding up to whole blocks
  double rate = 1;  ///< false positive rate of this slice alone
};
struct SlicedTable {
  std::size_t run = 0;               ///< index of the table's run
  std::uint64_t entries = 0;         ///< number of entries of this table
  std::span<const SliceWorth> have;  ///< all slices with which the table was built
  std::uint32_t loaded = 0;          ///< number of slices that are in memory now
};

/// Returns the number of slices of each table to keep in memory, so that false positives cost the fewest page reads with
/// `budget_bits` for all tables. Takes slices in the order of page reads saved per bit, while there is room. The saving of a
/// slice that is in memory counts a quarter more, so that slices are not loaded and dropped repeatedly. The choice may exceed
/// the budget by 1/32: for a first slice, or for a later slice of which half fits. The reason: tables were built for an earlier
/// shape of the tree, and a table should not lose its filter for a few bits.
std::vector<std::uint32_t> choose_slices(std::span<const FilterRun> runs, std::span<const SlicedTable> tables,
                                         double budget_bits);
/// For comparison: returns the number of slices of each table whose bits are nearest to `bits_per_key`; at least one unless
/// `bits_per_key` is 0.
std::vector<std::uint32_t> choose_slices_evenly(std::span<const SlicedTable> tables, double bits_per_key);

}  // namespace ebbtide
