// Finds the tuning with the lowest cost for an expected mix (nominal tuning), or with the lowest worst cost over all mixes within
// rho of the expected mix (robust tuning; Huynh et al., Endure, Problems 1 and 2). rho = 0 is nominal tuning.
//
// The search tries every layout, size ratio T (some of those above kEachSizeRatio), scaling ratio c and tile size h, since there
// are few. For each combination it tries each number of levels L. L fixes a range of the buffer in which the cost has no jumps,
// and a golden-section search finds the best division of the memory in that range. The limits K_i of runs are found by steps in
// one K at a time: the costs and their worst case are convex in each K_i. A general solver for continuous variables would still
// have to be started for each L, and its T and K_i would have to be rounded.
//
// The search uses the ideal filter curve. If the system has the engine's filter curve, the search then compares its best
// candidates with the engine's allocator.
//
// Pure functions on values; any thread may call them.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include <engine/result.h>
#include "model/cost.h"
#include "model/robust.h"

namespace ebbtide {

/// Bounds that a tuning must keep; infinite = no bound.
struct Limits {
  double transient_space = std::numeric_limits<double>::infinity();      ///< largest CostReport::transient_space; 1 or more
  double longest_merge_bytes = std::numeric_limits<double>::infinity();  ///< largest CostReport::longest_merge_bytes
  double point_read = std::numeric_limits<double>::infinity();           ///< most page reads of an empty read or a read
  double write = std::numeric_limits<double>::infinity();                ///< most page reads of a write
};

/// The largest T that a search takes. The engine's policies accept no larger T.
inline constexpr int kLargestSizeRatio = 1024;
/// The search tries each T up to this number. Of larger T it first tries values about a twentieth apart, between which costs
/// change by less than a percent, and then the neighbours of the best value.
inline constexpr int kEachSizeRatio = 100;

struct TuneRequest {
  System system;
  PerOperation mix{};  ///< the expected mix; check_mix() must accept it
  double rho = 0;      ///< radius of the ball of mixes; at least 0
  Equations equations = Equations::kEngine;
  std::vector<Layout> layouts = {std::begin(kLayouts), std::end(kLayouts)};
  int size_ratio_min = 2, size_ratio_max = 100;                         ///< T, 2 to kLargestSizeRatio; Endure searches 2 to 100
  std::optional<double> tile_pages;                                     ///< if set, the search tries only this h
  std::vector<double> scaling_ratios = {0.4, 0.5, 0.6, 0.7, 0.8, 0.9};  ///< values of c to try for Garnering
  int level0_runs = 4;                                                  ///< R: runs of level 0
  double smallest_buffer_bits = 8.0 * 1024 * 1024;                      ///< smallest m_buf to try, above 0
  std::optional<double> filter_bits, buffer_bits;  ///< set both or neither; if set, they are fixed, and memory_bits is ignored
  Limits limits;
};

/// The best tuning of one layout.
struct Advice {
  Tuning tuning;
  CostReport report;
  WorstCase worst;   ///< the worst case within rho of the mix, without secondary range deletes
  double mean = 0;   ///< cost of the expected mix, including secondary range deletes
  double score = 0;  ///< the minimised value: worst.cost plus the cost of secondary range deletes
};

/// Returns the best tuning of each layout that has a tuning within the limits, the cheapest first. kInvalidArgument: the request
/// is wrong (the message names the field), or no tuning keeps the limits.
Result<std::vector<Advice>> tune(const TuneRequest& request);

/// Returns the costs of a given tuning and its worst mean cost within request.rho of request.mix.
Advice assess(const TuneRequest& request, const Tuning& tuning);

/// Returns the normalised delta throughput of the second tuning relative to the first (section 8.1): C(w, first) / C(w, second) -
/// 1. Positive if the second tuning is better.
inline double delta_throughput(double cost_of_first, double cost_of_second) { return cost_of_first / cost_of_second - 1; }

}  // namespace ebbtide
