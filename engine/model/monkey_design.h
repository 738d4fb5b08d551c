// Monkey's navigation of the design space (Dayan et al., "Optimal Bloom Filters and Adaptive Merging for LSM-Trees", TODS 2018, section 4.5,
// appendix C). It finds the merge policy, T and the division of the memory between filters and buffer that cost least in the worst case.
// Costs of reads and of writes may have bounds.
//
// The cost of an average operation is z Z + q Q + w W (Eq. 23). Z is the closed form of filter/monkey.h, Q and W are Eqs. 10 and 11 with
//
//   L = log_T(N E / M_buf (T - 1) / T), without rounding.
//
// Algorithm 1 goes through L = 1, 2, ... and sets T = N^(1/L). It means the T for which N E / M_buf is a full tree of L levels:
// T^(L+1) / (T - 1) = N E / M_buf. It depends on the buffer, so T and the memory are searched together here. Algorithm 5 divides
// the memory for a given T by Newton's method. Its Eq. 25 holds where all levels have filters (above M_threshold, Eq. 8); below,
// the division with the lowest true cost is searched. Eq. 10 counts (T - 1) / 2 and (T - 1) / T merges a level, other than
// Endure's Eq. 9. Eq. 42 is right where Eq. 38 differs.
//
// tuner.h searches more layouts; this file is for comparison with the paper.
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
  double levels = 1;                        ///< L; a fraction unless found by monkey_design()
  double filter_bits = 0, buffer_bits = 0;  ///< M_filt, M_buf
  double point_read = 0;                    ///< Z (Eqs. 19 and 20): page reads of an average point read of the mix
  double range = 0;                         ///< Q (Eq. 11)
  double write = 0;                         ///< W (Eq. 10)
  double cost = 0;                          ///< theta (Eq. 21): page reads of an average operation
};

/// Bounds of a service-level agreement; infinite = none.
struct MonkeyBounds {
  double point_read = std::numeric_limits<double>::infinity();
  double write = std::numeric_limits<double>::infinity();
};

/// Costs of a given design. `system`: entries, sizes, memory, write_asymmetry (the paper's phi) and range_selectivity count. T is at least 2.
MonkeyDesign monkey_costs(const System& system, const PerOperation& mix, bool tiering, double size_ratio, double filter_bits);

/// Algorithm 5: bits for filters at which Eq. 25 is smallest, of system.memory_bits, at least a page left to the buffer. Exact to a page.
double monkey_filter_memory(const System& system, const PerOperation& mix, bool tiering, double size_ratio);

/// Algorithm 1. kInvalidArgument: system or mix are wrong, no design keeps the bounds, or the data is
/// smaller than a tree with T = 2.
Result<MonkeyDesign> monkey_design(const System& system, const PerOperation& mix, const MonkeyBounds& bounds = {});

}  // namespace ebbtide
