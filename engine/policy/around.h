// Plans for files that overlap a frozen range, that is, the key range of quarantined files (tree/frozen.h). Pure functions.
//
//   cut     A file partly in a frozen range is cut at the range's ends, within its run. Policies can then use the parts outside
//           the range.
//   stack   Flushes add files to a frozen range that are newer than the quarantined files. Once more than kFrozenRuns runs have
//           such files, the newest of these are merged into one. The merge takes files from the newest on, until the next file
//           is larger than all taken files together. So the number of runs exceeds kFrozenRuns only by a logarithm of the data.
//           The merge takes no file that is older than a quarantined file.
#pragma once

#include "policy/policy.h"

namespace ebbtide {

inline constexpr std::size_t kFrozenRuns = 8;

/// Returns a plan that splits one file at the ends of a frozen range; an empty plan if no file must be split. Sets `*busy` to true if a file that must be split is busy. `shape` has all
/// files, also those in frozen ranges.
Plan plan_cut(const TreeShape& shape, bool* busy);
/// Returns a cut or a stack plan. `shape` has all files, also those in frozen ranges. Returns an empty plan if there is no work,
/// or only work on busy files.
Plan plan_around(const TreeShape& shape);

}  // namespace ebbtide
