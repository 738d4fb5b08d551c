// How many bits of filter each run gets in memory, from the shape of the tree and from what its lookups met by level. filter/slices.h
// decides, filters.cc carries it out.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <engine/options.h>
#include "db/trees/tree_lookups.h"
#include "tree/plan.h"
#include "version/version.h"

namespace ebbtide {

/// What decides about the filters of a tree's files.
struct FilterNeeds {
  FilterAllocation allocation = FilterAllocation::kUniform;
  double bits_per_key = 10;
  std::uint64_t memory = 0;          ///< bytes for all entries, in place of bits_per_key; 0 = none are set
  std::uint32_t pages_per_tile = 1;  ///< of files that are written now
  Arrivals arrivals = all_arrive();

  /// Bits for each of so many entries, on average.
  [[nodiscard]] double bits_for_each(std::uint64_t entries) const;
};

/// Entries of tables, whose tiles may be of several sizes: the setting may change, and `auto` does.
struct TiledEntries {
  std::uint64_t entries = 0;
  std::uint64_t pages = 0;  ///< sum over the entries of the pages per tile of their table

  void add(std::uint64_t count, std::uint32_t pages_per_tile) { *this += {count, count * pages_per_tile}; }
  TiledEntries& operator+=(const TiledEntries& other);
  TiledEntries& operator-=(const TiledEntries& other);
  /// Of a lookup of any of their keys, on average: h_r of filter/monkey.h. 1 without entries.
  [[nodiscard]] double pages_per_tile() const;
};

struct TablesView;

/// CompactionContext::filters for a job, and for a flush of so many entries: the slices of files written to any run, as the tree
/// is expected to be afterwards. Nothing if all files get the same.
std::map<RunId, std::vector<double>> filters_after(const TablesView& view, const Plan& plan, const FilterNeeds& needs);
std::map<RunId, std::vector<double>> filters_after_flush(const TablesView& view, std::uint64_t entries, const FilterNeeds& needs);

/// How many slices of its filter each table of the view should have in memory, by run and table.
std::vector<std::vector<std::uint32_t>> slices_to_keep(const TablesView& view, const FilterNeeds& needs);

}  // namespace ebbtide
