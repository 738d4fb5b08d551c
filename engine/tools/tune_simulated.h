// Costs of a merge policy that has no closed form, by simulation: the stack-based policies of the thesis, and any other for comparison.
//
// The simulator (simulate.h) fills a tree with as many flushes as the data has buffers, as the engine would. Costs are averages over the
// second half of them: point reads by the filters that the allocator would build for the runs at that moment, range reads by the number of
// runs, writes by what was written. The cost model (model/cost.h) gives those of a full tree instead, which are higher.
#pragma once

#include <engine/options.h>
#include <engine/result.h>
#include "model/cost.h"

namespace ebbtide {

/// More flushes take too long: the data has at most this many buffers.
inline constexpr double kMostSimulatedFlushes = 100'000;

/// `system` and `mix` as for costs_of(); `filter_bits` and `buffer_bits` as in Tuning. The report's levels are the runs at the end, the
/// newest first, as far as there is room; deadlines are not counted. kInvalidArgument: no such policy or wrong parameters, or more than
/// kMostSimulatedFlushes.
Result<CostReport> simulated_costs(const System& system, const PolicySettings& policy, double filter_bits, double buffer_bits,
                                   const PerOperation& mix);

}  // namespace ebbtide
