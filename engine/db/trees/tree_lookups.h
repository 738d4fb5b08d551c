// Counts the lookups of one tree by level: ended by a filter, false positives, found. They determine filter memory (Arrivals) and
// the size of delete tiles (TileUse).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "db/trees/counters.h"
#include "deletes/tile_size.h"

namespace ebbtide {

/// Number of levels with separate counts; deeper levels count as the last of these.
inline constexpr std::size_t kLookupLevels = 8;
inline std::size_t lookup_level(int level) { return std::min(static_cast<std::size_t>(level), kLookupLevels - 1); }

/// Lookups that reached the runs of a level.
struct LevelLookups {
  std::uint64_t denied = 0;   ///< ended by a filter
  std::uint64_t in_vain = 0;  ///< false positives: pages were searched for nothing
  std::uint64_t found = 0;
};
using LookupsByLevel = std::array<LevelLookups, kLookupLevels>;

/// One lookup, by run of its view (the first 64 runs).
struct RunsAsked {
  std::uint64_t denied = 0;   ///< bit r: the filter of run r denied the key
  std::uint64_t in_vain = 0;  ///< bit r: pages of run r were searched for nothing
  int found = -1;             ///< the run that has the key; -1 = none
};

/// The lookups of one tree. Each thread has a slot of its own, as in Counters, and pays plain stores. A slot is allocated when its
/// thread first uses the tree: there may be a thousand trees, and few threads use all of them. Thread-safe.
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

/// By level: the chance that a lookup reaches a run there and does not find its key, up to a common factor (a_r of filter/monkey.h).
using Arrivals = std::array<double, kLookupLevels>;
/// Assumed before anything was measured: every lookup reaches every level and finds nothing.
inline Arrivals all_arrive() {
  Arrivals arrivals{};
  arrivals.fill(1);
  return arrivals;
}
/// Returns the arrivals to assume next, from those assumed so far (`before`) and the lookups since then; nothing if there were too few
/// lookups. `runs` is the number of runs of each level. No chance is below a sixteenth of the largest: lookups change faster than
/// files are rewritten.
std::optional<Arrivals> measured_arrivals(const Arrivals& before, const LookupsByLevel& lookups,
                                          const std::array<std::uint64_t, kLookupLevels>& runs);

}  // namespace ebbtide
