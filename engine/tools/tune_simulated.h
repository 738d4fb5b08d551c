// Computes the costs of a merge policy by simulation. The costs of the stack-based policies of Mao's thesis have no closed form;
// other policies are simulated for comparison.
//
// The simulator (simulate.h) fills a tree with as many flushes as the data has buffers, and merges as the engine does. Costs are
// averages over the second half of the flushes. For point reads, the filters are those that the allocator would build for the
// runs at that moment. The cost of range reads follows from the number of runs, the cost of writes from the bytes written. The
// cost model (model/cost.h) gives the costs of a full tree instead, which are higher.
#pragma once

#include <engine/options.h>
#include <engine/result.h>
#include "model/cost.h"

namespace ebbtide {

/// The data may have at most this many buffers: the simulation of more flushes would take too long.
inline constexpr double kMostSimulatedFlushes = 100'000;

/// Returns the costs of `policy`. `system` and `mix` are as for costs_of(); `filter_bits` and `buffer_bits` as in Tuning. The
/// report's levels are the runs at the end of the simulation, the newest first, as many as fit. Delete deadlines have no effect.
/// kInvalidArgument: unknown policy, wrong parameters, or more than kMostSimulatedFlushes buffers.
Result<CostReport> simulated_costs(const System& system, const PolicySettings& policy, double filter_bits, double buffer_bits,
                                   const PerOperation& mix);

}  // namespace ebbtide
