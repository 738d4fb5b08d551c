// Computes the cost of each kind of operation under a tuning, in page reads (Huynh et al., Endure, section 4; Dayan et al., Monkey,
// section 4.2; Zhao et al., Autumn, section 3; Sarkar et al., Lethe, section 4).
//
// A cost is an expected number of random page reads. Sequential pages count f_seq each, written pages f_a times as much. Costs are those
// of a tree at its limits: every level but the last is full and has all its runs. Writes are amortised inserts of new keys.
//
// With n_i entries, K_i runs and false positive rate f_i at level i, h pages per tile and misses u_i of the cache:
//
//   empty read   sum K_i h f_i u_i                                                                                      (Eq. 4)
//   read         sum s_i (u_i + sum_{j<i} K_j h f_j u_j + (K_i - 1) / 2 h f_i u_i),   s_i = n_i / N                      (Eq. 6)
//   range        sum K_i h u_i + f_seq S_RQ N / B                                                                       (Eq. 7)
//   write        f_seq (1 + f_a) / B sum A_i,  A_i = times that level i writes an entry                                 (Eq. 9)
//
// Three sets of equations differ in levels, filters and A_i:
//
//   kEngine        What the engine does. Filters are those that the engine's allocator would build, for the mix of empty and other
//                  reads. Whole levels (K-LSM): run positions 1 .. q, q = ceil((T - 1) / K_i), so ceil((T - 1) / q) runs at most.
//                  The T-th arrival is written once:
//                  A_i = (sum of positions of T - 1 arrivals + 1) / T. At level 1 a flush is written by itself first. File by file:
//                  level 0 writes an entry once, level 1 1 + C_1 / R buffers, deeper ones 1 + kOverlap C_i / C_{i-1}.
//   kPaper         Endure as printed: Eq. 1 for L, Eq. 3 for f_i, at most 1, A_i = (T - 1 + K_i) / (2 K_i). Eq. 3 ignores K_i: it spends
//                  less memory than given if K_i > 1. Leveling is K_i = 1, 1-leveling K_1 = T - 1. Garnering has no equations there;
//                  it takes Autumn's capacities and otherwise the engine's.
//   kPaperRelaxed  kPaper, but sums of ranges and writes count log_T(N E / m_buf + 1) levels without rounding up. Its optima are those
//                  that Endure prints; with whole levels they are others (engine/docs/tuner.md).
//
// Deletes add two terms. Under a deadline every file of the last level that gets a delete is rewritten within the deadline. A delete
// arrives at a file after 1 / (deletes per write and file) writes on average, so a file is rewritten each time that this and a deadline
// have passed; what ordinary merges rewrite there is subtracted. A secondary delete reads and writes N / (B h) pages.
//
// Pure functions on values; any thread may call them.
#pragma once

#include <array>

#include "model/tuning.h"
#include "model/workload.h"

namespace ebbtide {

enum class Equations : std::uint8_t { kEngine, kPaper, kPaperRelaxed };

/// Bytes of the next level that meet a byte moved down file by file, as a fraction of the ratio of their capacities. Files are taken in
/// turn or by least overlap, where a level has most data since it was last emptied; twice the average would give 1/2. Measured with
/// ebbtide-simulate for T = 4 to 10, 500 to 8,000 flushes: 0.3 to 0.45.
inline constexpr double kOverlap = 0.4;

struct LevelCost {
  double entries = 0;         ///< n_i
  double runs = 1;            ///< K_i; 0 at level 0 of leveling, which is empty at rest, and at an empty last level of Garnering
  double bits_per_entry = 0;  ///< of its filters
  double false_positive_rate = 1;  ///< f_i of each run
  double writes = 0;               ///< A_i
  double miss_ratio = 1;           ///< u_i
};

/// A tree has at most this many levels: 2^60 buffers.
inline constexpr int kMostLevels = 62;

struct CostReport {
  PerOperation costs{};            ///< page reads per operation
  double delete_work = 0;          ///< part of costs[kWrite] that deadlines cause
  double secondary_delete = 0;     ///< page reads per range delete by the second key
  double level_count = 0;          ///< L; with a fraction under kPaperRelaxed
  double write_amplification = 0;  ///< sum of A_i
  double longest_merge_bytes =
      0;                       ///< most bytes that one merge writes: a whole level; file by file: a file and those it overlaps
  double transient_space = 1;  ///< bytes on disk while that merge is running / bytes of the data
  std::array<LevelCost, kMostLevels + 1> level{};  ///< from level 1 on, or from level 0 if the layout has one
  int levels = 0;                                  ///< used places of `level`
  int first_level = 1;                             ///< number of level[0]

  /// Page reads per average operation, secondary deletes included.
  [[nodiscard]] double mean(const PerOperation& mix, double secondary_per_operation) const {
    return mean_cost(mix, costs) + secondary_per_operation * secondary_delete;
  }
};

/// Costs of `tuning` on `system`. Filters are allocated for the empty reads and reads of `mix` (kEngine). `system` and `tuning` as
/// check_system() and check_tuning(), `mix` as check_mix().
CostReport costs_of(const System& system, const Tuning& tuning, const PerOperation& mix,
                    Equations equations = Equations::kEngine);

/// Runs that a whole level of the engine has at most if K_i is `runs`, 1 to T - 1: ceil((T - 1) / q) with q = ceil((T - 1) / K_i). With T = 6
/// and K = 4, q is 2, and three runs take all five units.
double effective_runs(double size_ratio, double runs);

/// Buffers that a full tree of `levels` levels holds. Grows with `levels`.
double buffers_of_full_tree(const Tuning& tuning, int levels, Equations equations);
/// L: the fewest levels that hold the entries (Eq. 1 for whole levels), at most kMostLevels.
int levels_needed(const System& system, const Tuning& tuning, Equations equations);

}  // namespace ebbtide
