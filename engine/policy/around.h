// What keeps a tree with quarantined files in order around them (tree/frozen.h). Pure.
//
//   cut     A file that lies partly in a frozen range is cut at its ends, within its run. Then policies can have the rest.
//   stack   Files newer than the quarantined ones pile up in a frozen range, flush by flush. Once more than kFrozenRuns runs have
//           some there, the newest are merged with each other, as many as are together no larger than the next: there are never
//           more than that and a logarithm. None goes past a quarantined file.
#pragma once

#include "policy/policy.h"

namespace ebbtide {

inline constexpr std::size_t kFrozenRuns = 8;

/// `shape` is whole: nothing was left out of it. Empty if there is nothing to do, or busy files are in the way.
Plan plan_around(const TreeShape& shape);

}  // namespace ebbtide
