// Plans for the surroundings of quarantined files (tree/frozen.h). Pure.
//
//   cut     A file partly in a frozen range is cut at the range's ends, within its run. Policies can then use the rest.
//   stack   Flushes add files to a frozen range that are newer than the quarantined ones. Once more than kFrozenRuns runs have
//           files there, the newest of them are merged: as many as are together no larger than the next. So their number exceeds
//           kFrozenRuns by a logarithm at most. No merge goes past a quarantined file.
#pragma once

#include "policy/policy.h"

namespace ebbtide {

inline constexpr std::size_t kFrozenRuns = 8;

/// The next cut that is due, or an empty plan. Sets `*busy` if a running job has a file that must be cut. `shape` has all files, also
/// those in frozen ranges.
Plan plan_cut(const TreeShape& shape, bool* busy);
/// A cut or a stack. `shape` has all files, also those in frozen ranges. Returns an empty plan if there is no work, or only with busy files.
Plan plan_around(const TreeShape& shape);

}  // namespace ebbtide
