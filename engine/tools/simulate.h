// Simulates merge policies without a database. Uses the policy objects of the engine, and the rules of tree/apply.h for their
// plans. Files have sizes but no keys (simulate_workload.h). Results:
//
//   write amplification     bytes written by flushes and merges / bytes flushed
//   runs                    sorted runs with files, after each flush and its merges: average and maximum over all flushes.
//                           Without filters, a lookup of a missing key reads this many runs
//   space amplification     bytes of all files / bytes of the live keys
//   transient               most bytes on disk at any time so far / bytes of the live keys. During a merge, both its inputs and
//                           its outputs are on disk (the thesis, 3.4.3: at most 2 without updates)
//
// Merges take no time: all merges after a flush end before the next flush. Policies are called as in the papers (Cadence): if a
// policy flushes and merges in one step, the flush is written only as part of the merge. With `as_engine`, policies are called as
// in the engine: every flush is written by itself, and every policy is called until it returns no plan.
//
// The key space is divided into equal cells; every flush has data in all cells. A file has some adjacent cells. Each cell of a
// file has all data written to the cell between two moments. Whole-level and stack policies need only one cell.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <engine/options.h>
#include "compaction/output_splitter.h"
#include "policy/policy.h"
#include "tools/simulate_workload.h"

namespace ebbtide {

struct SimulationSettings {
  PolicySettings policy;
  WorkloadSettings workload{};
  std::uint32_t cells = 0;  ///< a power of two up to 4096; 0 = kCellsByFile for policies that go file by file, 1 for others
  double file_size = 1;     ///< size of a table in memtables; above 0. Matters only if there is more than one cell
  bool as_engine = false;   ///< true: policies are called as in the engine, false: as in the papers
  FileChoice file_choice = FileChoice::kLeastOverlap;
};
inline constexpr std::uint32_t kCellsByFile = 64;

/// The results after a number of flushes.
struct SimulationSample {
  std::uint64_t flushes = 0;
  double write_amp = 0, avg_runs = 0;
  std::uint64_t max_runs = 0;
  double space_amp = 0, transient_space_amp = 0;
};

/// The simulation of one policy and its tree. Not thread-safe.
class Simulation {
 public:
  /// Returns kInvalidArgument like make_policy(), or if cells or file_size are out of range.
  static Result<std::unique_ptr<Simulation>> make(const SimulationSettings& settings);

  /// Simulates one flush and its merges. kInvalidArgument: the policy's plan does not fit the tree, or brings it outside the
  /// policy's bounds. Such an error is a bug of the policy; do not use the simulation, or its shape(), after it.
  Status flush();
  [[nodiscard]] SimulationSample sample() const;
  [[nodiscard]] const TreeShape& shape() const { return shape_; }
  /// Returns the plans of the last flush, in order.
  [[nodiscard]] const std::vector<Plan>& plans() const { return plans_; }
  [[nodiscard]] const Policy& policy() const { return *policy_; }

 private:
  /// The contents of one cell of a file: everything written between two moments.
  struct Span {
    std::uint64_t from = 0, to = 0;
  };
  /// Adjacent cells from `first` on. A cell with from == to is empty.
  struct Content {
    std::uint32_t first = 0;
    std::vector<Span> cells;
  };

  Simulation(std::shared_ptr<const Policy> policy, const SimulationSettings& settings, std::uint32_t cells);
  [[nodiscard]] double cell_bytes(const Span& span) const;
  FileShape add_file(Content content);
  std::vector<FileShape> cut(const Content& merged, std::vector<BelowFile> below);
  [[nodiscard]] Content merge(const std::vector<PlanInput>& inputs) const;
  Status carry_out(const Plan& plan, bool with_flush);
  void count_peak(std::uint64_t bytes);

  const std::shared_ptr<const Policy> policy_;
  const std::uint32_t cells_;
  std::vector<std::string> cell_keys_;  // start of each cell, and end of the last cell
  const Cadence cadence_;
  const PolicyContext context_;
  SimulatedWorkload workload_;
  TreeShape shape_;
  std::unordered_map<FileNum, Content> contents_;
  std::vector<Plan> plans_;
  FileNum last_file_ = 0;
  RunId flushed_run_ = 0;
  double written_ = 0, flushed_ = 0;
  std::uint64_t flushes_ = 0, runs_sum_ = 0, runs_max_ = 0, peak_bytes_ = 0;
};

/// Simulates `settings` and takes a sample after each flush number in `at`, which ascends. Calls `progress` (may be null) from
/// time to time with the number of simulated flushes.
Result<std::vector<SimulationSample>> simulate(const SimulationSettings& settings, std::span<const std::uint64_t> at,
                                               const std::function<void(std::uint64_t flushes)>& progress);

}  // namespace ebbtide
