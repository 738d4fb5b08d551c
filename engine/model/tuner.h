// Finds the tuning with the lowest cost for an expected mix (nominal tuning), or with the lowest worst cost over all mixes within rho of it
// (robust tuning; Huynh et al., Endure, Problems 1 and 2). rho = 0 is nominal tuning.
//
// The search is exhaustive in the layout, T, c and h, which are few. For each it takes the number of levels L one by one: L fixes a range
// of the buffer, in which the cost has no jumps, and a golden-section search finds the best division of the memory in it. The runs K_i are
// found by steps in one K at a time; the costs are convex in each K_i, and so is their worst case. A general solver for continuous
// variables would still have to be started for each L, and its T and K_i would have to be rounded afterwards.
//
// With the engine's filter curve the search uses the ideal one. It then compares the best candidates with the engine's allocator.
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

/// Bounds that a tuning must keep; infinite = none.
struct Limits {
  double transient_space = std::numeric_limits<double>::infinity();      ///< as CostReport, 1 or more
  double longest_merge_bytes = std::numeric_limits<double>::infinity();  ///< as CostReport
  double point_read = std::numeric_limits<double>::infinity();           ///< page reads of an empty read and of a read, each
  double write = std::numeric_limits<double>::infinity();                ///< page reads of a write
};

struct TuneRequest {
  System system;
  PerOperation mix{};  ///< expected; check_mix()
  double rho = 0;      ///< at least 0
  Equations equations = Equations::kEngine;
  std::vector<Layout> layouts = {std::begin(kLayouts), std::end(kLayouts)};
  int size_ratio_min = 2, size_ratio_max = 32;  ///< T; the engine's policies take 2 to 32, Endure searches 2 to 100
  std::vector<double> scaling_ratios = {0.4, 0.5, 0.6, 0.7, 0.8, 0.9};  ///< c of Garnering
  int level0_runs = 4;                                                  ///< R
  double smallest_buffer_bits = 8.0 * 1024 * 1024;                      ///< above 0
  std::optional<double> filter_bits, buffer_bits;  ///< both or neither: fixed, and memory_bits of the system does not count
  Limits limits;
};

/// The best tuning of one layout.
struct Advice {
  Tuning tuning;
  CostReport report;
  WorstCase worst;   ///< within rho of the mix; without secondary deletes
  double mean = 0;   ///< cost of the expected mix, secondary deletes included
  double score = 0;  ///< what was minimised: worst.cost plus secondary deletes
};

/// The best tuning of each layout that has one within the limits, the cheapest first. kInvalidArgument: the request is wrong (the message
/// names the field), or no tuning keeps the limits.
Result<std::vector<Advice>> tune(const TuneRequest& request);

/// Worst mean cost within `rho` of `mix` for a given tuning.
Advice assess(const TuneRequest& request, const Tuning& tuning);

/// Normalised delta throughput of `second` relative to `first` (section 8.1): C(w, first) / C(w, second) - 1. Positive if `second` is better.
inline double delta_throughput(double cost_of_first, double cost_of_second) { return cost_of_first / cost_of_second - 1; }

}  // namespace ebbtide
