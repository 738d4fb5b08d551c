// The cost of a change of tuning: the merges that bring a full tree of the old tuning into the shape of the new one.
//
// From the top level down: a level that has more runs than the new tuning allows is merged; entries above the new capacity of a
// level move to the next level. If a level has one run, the run is rewritten together with entries that move into it. If it has
// several runs, such entries become another run. Levels below the last level of the new tuning stay where they are.
//
// Pure functions on values; any thread may call them.
#pragma once

#include "model/cost.h"

namespace ebbtide {

/// Returns the number of entries that the merges of a change write. check_system() and check_tuning() must accept the arguments.
double entries_moved(const System& system, const Tuning& from, const Tuning& to);

/// Returns the cost in page reads of reading and writing `entries` in merges (Eq. 9's factor).
double merge_cost(const System& system, double entries);

}  // namespace ebbtide
