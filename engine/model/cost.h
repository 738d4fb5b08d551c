// Computes the cost of each kind of operation under a tuning, in page reads (Huynh et al., Endure, section 4; Dayan et al.,
// Monkey, section 4.2; Zhao et al., Autumn, section 3; Sarkar et al., Lethe, section 4).
//
// A cost is an expected number of random page reads. A page in a sequential access counts f_seq; a written page costs f_a times
// as much as a read page. The model assumes a tree at its limits: every level but the last is full and has all its runs. Writes
// are inserts of new keys; their cost is amortised over all merges.
//
// Level i has n_i entries and K_i runs of false positive rate f_i; a tile has h pages; u_i is the fraction of the page reads at
// level i that miss the block cache. N: entries, B: entries per page, S_RQ: fraction of the entries that a range read returns.
//
//   empty read   sum K_i h f_i u_i                                                                                      (Eq. 4)
//   read         sum s_i (u_i + sum_{j<i} K_j h f_j u_j + (K_i - 1) / 2 h f_i u_i),   s_i = n_i / N                      (Eq. 6)
//   range        sum K_i h u_i + f_seq S_RQ N / B                                                                       (Eq. 7)
//   write        f_seq (1 + f_a) / B sum A_i,  A_i = times that an entry is written at level i                          (Eq. 9)
//
// Three sets of equations differ in levels, filters and A_i:
//
//   kEngine        The engine's own behaviour. Filters are as the engine's allocator builds them for the mix of empty and
//                  other reads. Whole levels (K-LSM): T - 1 arrivals (units) fill a level. A run takes up to q =
//                  ceil((T - 1) / K_i) units, so there are at most ceil((T - 1) / q) runs. A unit that arrives as the p-th of
//                  its run causes p units of writes; the T-th arrival is written once. So A_i = (sum of the positions of T - 1
//                  arrivals + 1) / T. At level 1 a flush is written by itself before it is merged. File by file: an entry is
//                  written once at level 0, 1 + C_1 / R times at level 1 (C_i: capacity in buffers, R: runs of level 0), and
//                  1 + kOverlap C_i / C_{i-1} times at deeper levels.
//   kPaper         Endure as printed: Eq. 1 for L, Eq. 3 for f_i, at most 1, A_i = (T - 1 + K_i) / (2 K_i). Eq. 3 ignores K_i:
//                  the filters use less memory than given if K_i > 1. Leveling is K_i = 1, 1-leveling K_1 = T - 1. Endure has
//                  no equations for Garnering, so this set uses Autumn's capacities and otherwise the engine's equations.
//   kPaperRelaxed  Like kPaper, but the sums for ranges and writes use log_T(N E / m_buf + 1) levels (E: bytes of an entry),
//                  not rounded up. The resulting optima are the same as in Endure; with whole levels the optima differ
//                  (engine/docs/tuner.md).
//
// Deletes add two terms. Under a delete deadline, every file of the last level that gets a delete is rewritten within the
// deadline. On average a delete arrives at a file once every 1 / (deletes per write and file) writes. So a file is rewritten once
// per period of that many writes plus one deadline. Writes that ordinary merges make at the last level anyway are subtracted. A
// secondary range delete reads and writes N / (B h) pages.
//
// Pure functions on values; any thread may call them.
#pragma once

#include <array>

#include "model/tuning.h"
#include "model/workload.h"

namespace ebbtide {

enum class Equations : std::uint8_t { kEngine, kPaper, kPaperRelaxed };

/// Bytes of the next level that are rewritten per byte moved down file by file, divided by the ratio of the two levels'
/// capacities. Policies take files in turn or by least overlap. So they take files from the key range that has received most data
/// since a file was last taken there. If that range is twice as full as the average, the value is 1/2. Measured with
/// ebbtide-simulate for T = 4 to 10 and 500 to 8,000 flushes: 0.3 to 0.45.
inline constexpr double kOverlap = 0.4;

struct LevelCost {
  double entries = 0;  ///< n_i
  double runs = 1;     ///< K_i; 0 at level 0 of leveling, which is empty between merges, and at an empty last level of Garnering
  double bits_per_entry = 0;       ///< filter bits per entry of the level
  double false_positive_rate = 1;  ///< f_i of each run
  double writes = 0;               ///< A_i
  double miss_ratio = 1;           ///< u_i: fraction of the page reads at the level that miss the block cache
};

/// The largest number of levels: a tree of 62 levels holds at least 2^60 buffers.
inline constexpr int kMostLevels = 62;

struct CostReport {
  PerOperation costs{};            ///< page reads per operation
  double delete_work = 0;          ///< page reads per write that deadlines cause; included in costs[kWrite]
  double secondary_delete = 0;     ///< page reads per secondary range delete
  double level_count = 0;          ///< L; not a whole number under kPaperRelaxed
  double write_amplification = 0;  ///< sum of A_i
  /// Most bytes that one merge writes: a whole level, or, file by file, a file and the files that it overlaps.
  double longest_merge_bytes = 0;
  double transient_space = 1;                      ///< bytes on disk during the longest merge / bytes of the data
  std::array<LevelCost, kMostLevels + 1> level{};  ///< by level, from level `first_level` on
  int levels = 0;                                  ///< number of used elements of `level`
  int first_level = 1;                             ///< number of the level in level[0]: 0 if the layout has a level 0, else 1

  /// Returns the page reads of an average operation, including secondary range deletes.
  [[nodiscard]] double mean(const PerOperation& mix, double secondary_per_operation) const {
    return mean_cost(mix, costs) + secondary_per_operation * secondary_delete;
  }
};

/// Returns the costs of `tuning` on `system`. Under kEngine, filters are allocated for the empty reads and reads of `mix`.
/// check_system(), check_tuning() and check_mix() must accept the arguments.
CostReport costs_of(const System& system, const Tuning& tuning, const PerOperation& mix,
                    Equations equations = Equations::kEngine);

/// Returns the largest number of runs of a whole level of the engine if K_i is `runs`, 1 to T - 1. It is ceil((T - 1) / q) with q
/// = ceil((T - 1) / K_i). For example, with T = 6 and K = 4, q is 2, and three runs hold all five units.
double effective_runs(double size_ratio, double runs);

/// Returns the number of buffers that a full tree of `levels` levels holds. The result grows with `levels`.
double buffers_of_full_tree(const Tuning& tuning, int levels, Equations equations);
/// Returns L, the smallest number of levels that hold the entries (Eq. 1 for whole levels), at most kMostLevels.
int levels_needed(const System& system, const Tuning& tuning, Equations equations);

}  // namespace ebbtide
