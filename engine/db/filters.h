// Filter memory follows the tree (filter/slices.h decides, filters.cc does): what lookups met by level, and what follows from it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <engine/options.h>
#include "db/counters.h"
#include "deletes/tile_size.h"
#include "tree/plan.h"
#include "version/version.h"

namespace ebbtide {

/// Levels that are told apart; deeper ones count as the last of these.
inline constexpr std::size_t kLookupLevels = 8;
inline std::size_t lookup_level(int level) { return std::min(static_cast<std::size_t>(level), kLookupLevels - 1); }

/// Of the lookups that came to the runs of a level: a filter ended them there; pages were looked at for nothing; the key was found.
struct LevelLookups {
  std::uint64_t denied = 0, in_vain = 0, found = 0;
};
using LookupsByLevel = std::array<LevelLookups, kLookupLevels>;

/// One lookup, by run of its view (the first 64).
struct RunsAsked {
  std::uint64_t denied = 0, in_vain = 0;  ///< bit r: run r
  int found = -1;                         ///< the run that has the key; -1 = none
};

/// Lookups of one tree. Each thread has counters of its own, as in Counters, and pays plain stores. They are made when the thread
/// first uses the tree: there may be a thousand trees, and few threads use all of them.
class TreeLookups {
 public:
  TreeLookups() = default;
  ~TreeLookups();
  TreeLookups(const TreeLookups&) = delete;
  TreeLookups& operator=(const TreeLookups&) = delete;

  struct Level {
    std::atomic<std::uint64_t> denied{0}, in_vain{0}, found{0};
  };
  struct alignas(64) Slot {
    std::array<Level, kLookupLevels> levels;
    std::atomic<std::uint64_t> pages_in_vain{0}, iterators{0}, range_deletes{0};
  };
  Slot& mine() {
    std::atomic<Slot*>& place = slots_[Counters::slot()];
    Slot* const slot = place.load(std::memory_order_acquire);
    return slot != nullptr ? *slot : make_slot(place);
  }
  [[nodiscard]] LookupsByLevel total() const;
  [[nodiscard]] TileUse tile_use() const;

 private:
  static Slot& make_slot(std::atomic<Slot*>& place);
  std::array<std::atomic<Slot*>, Counters::kSlots> slots_{};
};

/// By level, the chance that a lookup comes to a run there and does not find its key (a_r of filter/monkey.h), up to a factor.
using Arrivals = std::array<double, kLookupLevels>;
/// Nothing is known: every lookup comes everywhere, and finds nothing.
inline Arrivals all_arrive() {
  Arrivals arrivals{};
  arrivals.fill(1);
  return arrivals;
}
/// What follows for the next time from what was assumed so far and the lookups since then, `runs` being how many runs each level
/// has. Nothing of too few lookups. No chance is taken to be under a sixteenth of the largest: lookups change faster than
/// files are rewritten.
std::optional<Arrivals> measured_arrivals(const Arrivals& before, const LookupsByLevel& lookups,
                                          const std::array<std::uint64_t, kLookupLevels>& runs);

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
