// The numbers of runs of level 0 at which writes slow down and stop.
//
// A merge of level 0 begins at `due` runs. While it runs, flushes add runs, and each of them is one more run that reads probe.
// The surplus above `due` is what makes reads worse than the tuning intends, so the limits bound the surplus:
//   * with a few runs by multiples of `due`: the runs of two more merges may wait before writes slow down, those of five more
//     before writes stop. The constants prevent that a small `due` stops writes because of a few small flushes;
//   * with many runs by a number: however large T is, reads probe at most kStopSurplus runs too many. For the largest T that is one
//     more level 0 that fills while the one before merges.
// engine/docs/decisions/0051-surplus-runs-stop-writes.md has the reasons.
#pragma once

#include <algorithm>

namespace ebbtide {

inline constexpr int kSlowSurplus = 512, kStopSurplus = 1024;

/// Return the limits for a policy whose level 0 merges at `due` runs, 1 or more.
inline int slowdown_at(int due) { return due + std::min(2 * due + 4, kSlowSurplus); }
inline int stop_at(int due) { return due + std::min(5 * due + 8, kStopSurplus); }

}  // namespace ebbtide
