// Counts the lookups of one tree by level: ended by a filter, false positives, found. The counts determine filter memory
// (Arrivals) and the size of delete tiles (TileUse).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "db/trees/counters.h"
#include "deletes/tile_size.h"

namespace ebbtide {

/// Number of levels with counts of their own; the last count also has all deeper levels.
inline constexpr std::size_t kLookupLevels = 8;
inline std::size_t lookup_level(int level) { return std::min(static_cast<std::size_t>(level), kLookupLevels - 1); }

/// The lookups that reached the runs of a level, by result.
struct LevelLookups {
  std::uint64_t denied = 0;   ///< lookups whose key a filter excluded
  std::uint64_t in_vain = 0;  ///< false positives: lookups that searched pages and did not find the key
  std::uint64_t found = 0;
};
using LookupsByLevel = std::array<LevelLookups, kLookupLevels>;

/// The effect of one lookup on the first 64 runs of its view.
struct RunsAsked {
  static constexpr std::size_t kRuns = 64;
  std::uint64_t denied = 0;   ///< bit r: the filter of run r excluded the key
  std::uint64_t in_vain = 0;  ///< bit r: pages of run r were searched, and the key was not there
  int found = -1;             ///< index of the run that has the key; -1 = none
};

/// Counts the lookups of one tree. As in Counters, each thread has a slot of its own and counts by plain stores. A slot is
/// allocated when its thread first uses the tree: there may be a thousand trees, and few threads use all of them. Thread-safe.
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

/// For each level: the chance that a lookup searches a run of the level and does not find its key (a_r of filter/monkey.h). The
/// values are right up to a common factor.
using Arrivals = std::array<double, kLookupLevels>;
/// Returns the arrivals to assume before any measurement: every lookup reaches every level and finds nothing.
inline Arrivals all_arrive() {
  Arrivals arrivals{};
  arrivals.fill(1);
  return arrivals;
}
/// Returns new arrivals: the average of `before` and the arrivals of `lookups`, the lookups since `before` was computed. Returns
/// no value if there were too few lookups. `runs`: number of runs of each level. No chance is below a sixteenth of the largest
/// one, since the mix of lookups changes faster than files are rewritten.
std::optional<Arrivals> measured_arrivals(const Arrivals& before, const LookupsByLevel& lookups,
                                          const std::array<std::uint64_t, kLookupLevels>& runs);

}  // namespace ebbtide
