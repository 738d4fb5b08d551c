// Answers what-if questions: the costs of a tuning before and after a change of the system or of the mix (Dayan et al., Monkey,
// sections 4.2 and 4.5).
//
// Pure functions on values; any thread may call them.
#pragma once

#include <optional>

#include <engine/result.h>
#include "model/tuner.h"

namespace ebbtide {

/// New values for fields of the system, and for the mix; fields without a value stay as they are.
struct Change {
  std::optional<double> memory_bits;  ///< filters and buffer keep their shares of the memory
  std::optional<double> entries, entry_bytes, page_bytes;
  std::optional<double> write_asymmetry, sequential_cost, range_selectivity;
  std::optional<PerOperation> mix;
};

struct WhatIf {
  Advice before, after;           ///< the given layout, T and runs, before and after the change
  std::optional<Advice> retuned;  ///< the best tuning after the change; not set if no tuning keeps the limits
};

/// Returns the request after the change. If filter and buffer memory are fixed, they change in proportion to the memory.
TuneRequest changed(const TuneRequest& request, const Change& change);

/// Returns the costs of `tuning` before and after `change`, and the best tuning after the change with its costs.
/// kInvalidArgument: the request, the tuning or the changed request is wrong.
Result<WhatIf> what_if(const TuneRequest& request, const Tuning& tuning, const Change& change);

}  // namespace ebbtide
