// Computes at how many runs of level 0 writes slow down, and at how many they stop.
//
// A merge of level 0 begins at `due` runs. While it runs, flushes add runs, and each lookup must search each of them. The runs
// above `due` (the surplus) make reads slower than the settings intend, so the limits bound the surplus:
//   * if `due` is small, by multiples of `due`: the runs of two more merges may wait before writes slow down, and the runs of
//     five more merges before writes stop. The constants 4 and 8 are added, so that a few small flushes do not stop writes;
//   * if `due` is large, by kSlowSurplus and kStopSurplus: so for any size ratio T, the surplus is at most kStopSurplus runs. For
//     the largest T, kStopSurplus is the number of runs at which level 0 merges.
// engine/docs/decisions/0051-surplus-runs-stop-writes.md has the reasons.
#pragma once

#include <algorithm>

namespace ebbtide {

inline constexpr int kSlowSurplus = 512, kStopSurplus = 1024;

/// Return the limits for a policy whose level 0 merges at `due` runs, 1 or more.
inline int slowdown_at(int due) { return due + std::min(2 * due + 4, kSlowSurplus); }
inline int stop_at(int due) { return due + std::min(5 * due + 8, kStopSurplus); }

}  // namespace ebbtide
