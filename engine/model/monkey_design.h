// Monkey's navigation of the design space (Dayan et al., "Optimal Bloom Filters and Adaptive Merging for LSM-Trees", TODS 2018,
// section 4.5, appendix C). Finds the merge policy, the size ratio T and the division of the memory between filters and buffer
// for which an average operation has the lowest worst-case cost. The costs of reads and of writes may have bounds.
//
// The cost of an average operation is z Z + q Q + w W (Eq. 23). Z is the closed form of filter/monkey.h, Q and W are Eqs. 10 and
// 11 with
//
//   L = log_T(N E / M_buf (T - 1) / T), not rounded.
//
// Algorithm 1 goes through L = 1, 2, ... and sets T = N^(1/L). But the algorithm needs the T with which the data is a full tree
// of L levels: T^(L+1) / (T - 1) = N E / M_buf. This T depends on the buffer, so this file searches T and the memory together.
// Algorithm 5 divides the memory for a given T by Newton's method; monkey_navigation() uses it for each whole T. Eq. 25, which
// Algorithm 5 minimises, holds if all levels have filters (above M_threshold, Eq. 8). With less memory, Algorithm 5 does not find
// the division with the lowest true cost; monkey_design() searches for it. Eq. 10 counts (T - 1) / 2 and (T - 1) / T merges per
// level, unlike Endure's Eq. 9. Where Eqs. 38 and 42 differ, Eq. 42 is right.
//
// tuner.h searches more layouts; this file serves comparisons with the paper.
//
// Pure functions on values; any thread may call them.
#pragma once

#include <limits>

#include <engine/result.h>
#include "model/tuning.h"
#include "model/workload.h"

namespace ebbtide {

struct MonkeyDesign {
  bool tiering = false;
  double size_ratio = 2;                    ///< T
  double levels = 1;                        ///< L, the number of levels; monkey_costs() does not round it
  double filter_bits = 0, buffer_bits = 0;  ///< M_filt, M_buf
  double point_read = 0;                    ///< Z (Eqs. 19 and 20): page reads of an average point read of the mix
  double range = 0;                         ///< Q (Eq. 11)
  double write = 0;                         ///< W, the cost of a write (Eq. 10)
  double cost = 0;                          ///< theta (Eq. 21): page reads of an average operation
};

/// Upper bounds on costs, in page reads, from a service-level agreement; infinite = no bound.
struct MonkeyBounds {
  double point_read = std::numeric_limits<double>::infinity();
  double write = std::numeric_limits<double>::infinity();
};

/// Returns the costs of a given design. Uses these fields of `system`: entries, sizes, memory, write_asymmetry (the paper's phi)
/// and range_selectivity. `size_ratio` is at least 2.
MonkeyDesign monkey_costs(const System& system, const PerOperation& mix, bool tiering, double size_ratio, double filter_bits);

/// Algorithm 5: returns the bits of system.memory_bits for filters at which Eq. 25 is smallest; at least a page is left for the
/// buffer. Accurate to a page.
double monkey_filter_memory(const System& system, const PerOperation& mix, bool tiering, double size_ratio);

/// The designs that monkey_navigation() tries.
struct MonkeyRange {
  int size_ratio_min = 2, size_ratio_max = 100;  ///< whole T, 2 or more
  bool leveling = true, tiering = true;
};
/// Returns the cheapest design within the bounds (section 4.5, "Holistic Design with SLAs") among whole T, each with its memory
/// divided by Algorithm 5. The design has the costs of monkey_costs(). kInvalidArgument: as for monkey_design().
Result<MonkeyDesign> monkey_navigation(const System& system, const PerOperation& mix, const MonkeyRange& range,
                                       const MonkeyBounds& bounds = {});

/// Algorithm 1: returns the cheapest design. kInvalidArgument: `system` or `mix` is wrong, no design keeps the bounds, or the
/// data is smaller than a tree with T = 2.
Result<MonkeyDesign> monkey_design(const System& system, const PerOperation& mix, const MonkeyBounds& bounds = {});

}  // namespace ebbtide
