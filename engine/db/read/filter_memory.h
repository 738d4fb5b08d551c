// Sets how many filter bits each run has in memory, by the shape of the tree and its lookups by level (filter/slices.h decides).
//
// There are two decisions. When a file is written, its filter gets the bits for the tree as it will be with the file. With every new set of
// tables, a second decision chooses the slices of each filter to keep in memory. It writes no file. So it can follow later changes: moved
// files, new levels below, another budget, other lookups.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <engine/options.h>
#include "base/clock.h"
#include "base/epoch.h"
#include "db/trees/tree.h"
#include "tree/plan.h"
#include "version/version.h"

namespace ebbtide {

/// The settings and measurements that the filters of a tree follow.
struct FilterNeeds {
  FilterAllocation allocation = FilterAllocation::kUniform;
  double bits_per_key = 10;
  std::uint64_t memory = 0;          ///< bytes for all entries, instead of bits_per_key; 0 = not set
  std::uint32_t pages_per_tile = 1;  ///< of new files
  Arrivals arrivals = all_arrive();

  /// Bits for each entry, on average, of a tree with so many entries.
  [[nodiscard]] double bits_for_each(std::uint64_t entries) const;
};

/// The entries of tables that may have tiles of several sizes: the setting can change, and `auto` changes it.
struct TiledEntries {
  std::uint64_t entries = 0;
  std::uint64_t pages = 0;  ///< sum over all entries of the pages per tile of their table

  void add(std::uint64_t count, std::uint32_t pages_per_tile) { *this += {count, count * pages_per_tile}; }
  TiledEntries& operator+=(const TiledEntries& other);
  TiledEntries& operator-=(const TiledEntries& other);
  /// The average over the entries: h_r of filter/monkey.h. 1 without entries.
  [[nodiscard]] double pages_per_tile() const;
};

/// CompactionContext::filters for a job, and for a flush of `entries` entries: the bits of each slice, by target run, for the tree as it
/// will be afterwards. Empty if all files get the same bits.
std::map<RunId, std::vector<double>> filters_after(const TablesView& view, const Plan& plan, const FilterNeeds& needs);
std::map<RunId, std::vector<double>> filters_after_flush(const TablesView& view, std::uint64_t entries, const FilterNeeds& needs);

/// The number of slices of its filter that each table of the view should have in memory, by run and table.
std::vector<std::vector<std::uint32_t>> slices_to_keep(const TablesView& view, const FilterNeeds& needs);

struct FilterFitEnv {
  const Clock& clock;
  Epoch& epoch;
  std::function<void(const std::string& warning)> warn;
};
/// Loads and drops slices according to slices_to_keep(). One call loads only a few slices, since that reads files; returns false if some
/// are left for the next call. Lookups work without a slice that cannot be read; it is retried a minute later. The epoch keeps dropped
/// slices for their current readers.
bool fit_filters(const TablesView& view, const FilterNeeds& needs, const FilterFitEnv& env);

// --- for one tree; the caller holds the state mutex
/// The tree's settings, with the measured value of a setting that is left to measurement.
[[nodiscard]] TreeSettings table_settings(const Tree& tree);
[[nodiscard]] FilterNeeds filter_needs(const Tree& tree);
/// Updates the tree's arrivals and tile size from its lookups.
void measure_lookups(Tree& tree);

}  // namespace ebbtide
