// Determines how many filter bits of each run are in memory, from the shape of the tree and its lookups by level (filter/slices.h
// decides).
//
// There are two decisions. When a file is written, its filter gets the bits that suit the tree with the new file. Whenever the
// tables change, a second decision chooses the slices of each filter to keep in memory. The second decision writes no file, so it
// can follow later changes: moved files, new levels, another budget, other lookups.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <engine/options.h>
#include "base/clock.h"
#include "base/epoch.h"
#include "base/mutex.h"
#include "db/trees/tree.h"
#include "tree/plan.h"
#include "version/version.h"

namespace ebbtide {

/// The settings and measurements that determine the filters of a tree.
struct FilterNeeds {
  FilterAllocation allocation = FilterAllocation::kUniform;
  double bits_per_key = 10;
  std::uint64_t memory = 0;          ///< bytes of memory for all keys, which replaces bits_per_key; 0 = not set
  std::uint32_t pages_per_tile = 1;  ///< pages per tile of new files
  Arrivals arrivals = all_arrive();

  bool operator==(const FilterNeeds&) const = default;
  /// Returns the average bits per key for a tree whose filters have `keys` keys.
  [[nodiscard]] double bits_for_each(std::uint64_t keys) const;
};

/// The keys in the filters of tables (TableStats::filter_keys). Tables may have tiles of different sizes, since the setting can
/// change, and `auto` changes it.
struct TiledKeys {
  std::uint64_t keys = 0;
  std::uint64_t pages = 0;  ///< sum, over all keys, of the pages per tile of the key's table

  void add(std::uint64_t count, std::uint32_t pages_per_tile) { *this += {count, count * pages_per_tile}; }
  TiledKeys& operator+=(const TiledKeys& other);
  TiledKeys& operator-=(const TiledKeys& other);
  /// Returns the average pages per tile over the keys: h_r of filter/monkey.h. Returns 1 if there are no keys.
  [[nodiscard]] double pages_per_tile() const;
};

/// Return CompactionContext::filters for a job, and for a flush of `entries` entries: the bits of each slice, by target run. The
/// bits suit the tree after the job, once the levels above the target have refilled to their present number of keys. Empty if all
/// files get the same bits.
std::map<RunId, std::vector<double>> filters_after(const TablesView& view, const Plan& plan, const FilterNeeds& needs);
std::map<RunId, std::vector<double>> filters_after_flush(const TablesView& view, std::uint64_t entries, const FilterNeeds& needs);

/// Returns, by run and table, the number of filter slices that each table of the view should have in memory. If a table's index
/// was never read, it gets the largest number among the other tables of its run, since their filters mostly have the same slices.
/// If no table of its run was read, it gets all slices.
std::vector<std::vector<std::uint32_t>> slices_to_keep(const TablesView& view, const FilterNeeds& needs);

/// The state of a tree when its filters were last fitted as a whole.
struct FilterFit {
  FilterNeeds needs{};
  std::map<RunId, std::uint64_t> keys{};  ///< keys of each run
  struct Load {
    std::weak_ptr<const OpenTable> table{};
    std::uint32_t slices = 0;  ///< number of slices that should be in memory
  };
  std::shared_ptr<const std::vector<Load>> loads{};
  std::size_t next = 0;  ///< index in `loads` of the next load; earlier loads are done
};

struct FilterFitEnv {
  const Clock& clock;
  Epoch& epoch;
  std::function<void(const std::string& warning)> warn;
};
/// Loads and drops slices according to slices_to_keep(). One call loads only a few slices, since loading reads files; returns
/// false if the next call has slices to load. Lookups work without a slice that cannot be read; its load is tried again a minute
/// later. The epoch keeps dropped slices for readers that still use them.
///
/// slices_to_keep() visits all tables. So for a tree of many tables it is called again only in two cases: `needs` have changed,
/// or the runs' keys have changed by a thirty-second of all keys. Until then, new tables keep the slices with which they were
/// written. Each call of slices_to_keep() sets `view.fitted`.
bool fit_filters(TablesView& view, const FilterNeeds& needs, const FilterFitEnv& env);

/// Updates the measurements that determine the tree's filters, and calls fit_filters() for the tables. `state_mutex` guards the
/// tree (db/trees/tree.h).
bool measure_and_fit_filters(Tree& tree, TablesView& tables, Mutex& state_mutex, const FilterFitEnv& env) EXCLUDES(state_mutex);

/// Calls filter_needs(tree) with the state mutex locked, for a caller that does not hold it.
[[nodiscard]] FilterNeeds filter_needs(const Tree& tree, Mutex& state_mutex) EXCLUDES(state_mutex);

// --- for one tree; the caller holds the state mutex
/// Returns the tree's settings. A measured value replaces each setting that is `auto`.
[[nodiscard]] TreeSettings table_settings(const Tree& tree);
[[nodiscard]] FilterNeeds filter_needs(const Tree& tree);
/// Updates the tree's arrivals and tile size from its lookups.
void measure_lookups(Tree& tree);

}  // namespace ebbtide
